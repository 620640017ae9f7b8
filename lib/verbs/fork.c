/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork() and converted memory.
 *
 * Converted memory is a shared mapping, which a child would continue to share with its parent. So the child replaces
 * each one by a private copy, and in the parent fork() returns only when that is done. Other threads of the parent may
 * write meanwhile, as they may between any two loads of the child's. Beyond FORK_COPY_BYTES the rest is mapped
 * privately instead: the child's stores are not seen by the parent, but the child may see later stores of the parent.
 *
 * A child can't use its parent's device contexts, as with any RDMA device; it may open its own. vfork() and
 * posix_spawn() (and so system() and popen()) run no handlers and need none.
 */
#include "verbs/client_priv.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/maps.h"

#define FORK_COPY_BYTES (UINT64_C(1) << 30)

pthread_mutex_t client_contexts_lock = PTHREAD_MUTEX_INITIALIZER;
struct client_ctx *client_contexts;

/* The child closes the write end, or dies, when it has its copies. [0] -1: nothing was ever converted. */
static int copied[2] = { -1, -1 };

static void
fork_prepare(void)
{
	pthread_mutex_lock(&client_contexts_lock);
	convert_fork_lock();
	copied_fork_lock();
	copied[0] = copied[1] = -1;
	if (!convert_total())
		return;
	if (pipe2(copied, O_CLOEXEC))
		copied[0] = copied[1] = -1;
	if (convert_total() > FORK_COPY_BYTES)
		convert_pin_files();
}

static void
fork_parent(void)
{
	char none;

	if (copied[0] >= 0) {
		close(copied[1]);
		while (read(copied[0], &none, 1) < 0 && errno == EINTR)
			;
		close(copied[0]);
	}
	copied_fork_unlock();
	convert_fork_unlock();
	pthread_mutex_unlock(&client_contexts_lock);
}

/* Not memcpy(), because AddressSanitizer's version rejects memory that the program has freed, which is copied too. */
__attribute__((no_sanitize("address"))) static void
copy_pages(void *to, const void *from, uint64_t bytes)
{
	volatile uint64_t *t = to;
	const volatile uint64_t *f = from;

	for (uint64_t i = 0; i < bytes / sizeof(*t); i++)
		t[i] = f[i];
}

/* This must not allocate: malloc()'s own memory may still be shared. */
static int
copy_private(const struct map_entry *e)
{
	uint64_t bytes = e->end - e->start;
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return errno;
	/* The program may have made the memory unreadable; this mapping is replaced anyway. */
	if ((e->prot & PROT_READ) || !mprotect((void *)e->start, bytes, PROT_READ)) {
		copy_pages(copy, (void *)e->start, bytes);
		if ((e->prot == (PROT_READ | PROT_WRITE) || !mprotect(copy, bytes, e->prot)) &&
		    mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)e->start) != MAP_FAILED)
			return 0;
	}
	munmap(copy, bytes);
	return ENOMEM;
}

/* @return the open context to whose converted memory this mapping belongs, or NULL. */
static const struct client_ctx *
owner_of(const struct map_entry *e)
{
	const struct client_ctx *ctx = client_contexts;

	while (ctx && !mem_file_is(&ctx->mem, e))
		ctx = ctx->next;
	return ctx;
}

static void
make_private(const struct map_entry *e, uint64_t *copied_bytes)
{
	const struct client_ctx *owner = owner_of(e);
	uint64_t bytes = e->end - e->start;

	if (!owner && !convert_is_retired(e))
		return;
	if ((!owner || *copied_bytes + bytes <= FORK_COPY_BYTES) && !copy_private(e))
		*copied_bytes += bytes;
	else if (owner)
		mmap((void *)e->start, bytes, e->prot, MAP_PRIVATE | MAP_FIXED, owner->mem.fd, e->offset);
}

static void
fork_child(void)
{
	uint64_t at = 0, copied_bytes = 0;
	struct map_entry e;

	maps_forget();
	convert_fork_child();
	client_faults_fork_child();
	for (struct client_ctx *ctx = client_contexts; ctx; ctx = ctx->next)
		ctx->foreign = true;
	if (copied[0] >= 0) {
		close(copied[0]);
		for (; !maps_find(at, &e); at = e.end)
			make_private(&e, &copied_bytes);
		close(copied[1]);
	}
	copied_fork_unlock();
	convert_fork_unlock();
	pthread_mutex_unlock(&client_contexts_lock);
}

static void
register_handlers(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void
client_fork_setup(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_handlers);
}

CLIENT_EXPORT int
ibv_fork_init(void)
{
	return 0;
}

CLIENT_EXPORT enum ibv_fork_status
ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Part of the library's binary interface, but in no header. */
CLIENT_EXPORT int ibv_dontfork_range(void *base, size_t size);
CLIENT_EXPORT int ibv_dofork_range(void *base, size_t size);

int
ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int
ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
