/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of journals, and of what is known of memory windows. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/mw.h"
#include "transport/journal/journal.h"
#include "uroce/stack.h"

/** Make memory that is sparse: what isn't used takes none. @return 0 or an errno value. */
static int
create(const char *name, size_t bytes, int *fd, void **at)
{
	void *p;

	*fd = memfd_create(name, MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
		return errno;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
	if (p == MAP_FAILED)
		return errno;
	*at = p;
	return 0;
}

static void
destroy(size_t bytes, int fd, void *at)
{
	if (at != NULL)
		munmap(at, bytes);
	if (fd >= 0)
		close(fd);
}

int
stack_journals_create(struct uroce *u)
{
	size_t bytes;
	int rc = 0;

	u->journal_limits = (struct journal_limits){ .qps = qp_table_slots(u->sh.qps), .cqs = UROCE_MAX_CQ, .srqs = UROCE_MAX_SRQ };
	bytes = journal_bytes(&u->journal_limits);
	for (unsigned int i = 0; i < u->nb_engines; i++)
		u->journal_fds[i] = -1;
	u->windows_fd = -1;
	for (unsigned int i = 0; i < u->nb_engines && rc == 0; i++)
		rc = create("uroce-journal", bytes, &u->journal_fds[i], &u->journals[i]);
	if (rc == 0)
		rc = create("uroce-windows", mw_notes_bytes(u->sh.mrs), &u->windows_fd, &u->windows);
	if (rc == 0)
		mw_keep(u->sh.mrs, u->windows);
	u->keeps_journals = rc == 0;
	return rc;
}

void
stack_journals_destroy(struct uroce *u)
{
	size_t bytes = journal_bytes(&u->journal_limits);

	if (bytes == 0)
		return;
	for (unsigned int i = 0; i < u->nb_engines; i++)
		destroy(bytes, u->journal_fds[i], u->journals[i]);
	destroy(mw_notes_bytes(u->sh.mrs), u->windows_fd, u->windows);
}
