/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/old_journals_priv.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/core/control_priv.h"

struct old_journals {
	struct journals *journals;
	unsigned int nb;
	struct journal_memory memory[UROCE_MAX_ENGINES];
	struct journal_memory windows;
};

/** Map a descriptor of the stream. */
static void
map(struct journal_memory *m, struct stream_in *in, uint32_t number)
{
	int fd = stream_take_fd(in, number);
	struct stat st;
	void *at;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
		if (at != MAP_FAILED)
			*m = (struct journal_memory){ .at = at, .bytes = (size_t)st.st_size };
	}
	close(fd);
}

static void
unmap(const struct journal_memory *m)
{
	if (m->at != NULL)
		munmap((void *)(uintptr_t)m->at, m->bytes);
}

void
old_journals_close(struct control *c)
{
	struct old_journals *o = c->old_journals;

	if (o == NULL)
		return;
	journals_close(o->journals);
	for (unsigned int i = 0; i < o->nb; i++)
		unmap(&o->memory[i]);
	unmap(&o->windows);
	free(o);
	c->old_journals = NULL;
}

int
old_journals_open(struct control *c, const struct journals_record *from, struct stream_in *in, const char *why[UROCE_MAX_ENGINES])
{
	struct old_journals *o = calloc(1, sizeof(*o));
	int rc;

	if (o == NULL)
		return ENOMEM;
	c->old_journals = o;
	o->nb = from->nb;
	for (unsigned int i = 0; i < o->nb; i++)
		map(&o->memory[i], in, from->fds[i]);
	map(&o->windows, in, from->windows);
	rc = journals_open(o->memory, o->nb, &o->journals, why);
	if (rc != 0)
		old_journals_close(c);
	return rc;
}

struct journals *
old_journals(const struct control *c)
{
	return c->old_journals != NULL ? c->old_journals->journals : NULL;
}

bool
old_window(const struct control *c, uint32_t key, struct mw_state *to)
{
	const struct old_journals *o = c->old_journals;

	return o != NULL && o->windows.at != NULL && mw_noted(o->windows.at, o->windows.bytes, key, to);
}
