/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maps [GIB]: changes a large mapping all the time, so that whoever reads this program's mappings for the daemon waits, and asks for shared
 * memory to be registered. The mapping is made of the same 256 MiB again and again.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stuck.h"
#include "vt.h"

enum { FILE_BYTES = 256 << 20, MR_BYTES = 4096, CHANGERS = 2, GIB = 32 };

static size_t bytes;
static uint8_t *large;

/** The lock of the mappings is held for as long as a call takes, and there is always a next call. */
static void *
change(void *arg)
{
	for (;;) {
		mprotect(large, bytes, PROT_NONE);
		mprotect(large, bytes, PROT_READ);
	}
	return NULL;
}

static void
map_large(size_t gib)
{
	int fd = memfd_create("large", MFD_CLOEXEC);

	bytes = gib << 30;
	if (fd < 0 || ftruncate(fd, FILE_BYTES) != 0)
		attack_die("no memory");
	large = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (large == MAP_FAILED)
		attack_die("no mapping");
	for (size_t at = 0; at < bytes; at += FILE_BYTES)
		if (mmap(large + at, FILE_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED)
			attack_die("no mapping");
}

int
main(int argc, char **argv)
{
	void *shared = mmap(NULL, MR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	pthread_t thread;
	struct vt t;

	if (shared == MAP_FAILED)
		attack_die("no shared memory");
	vt_begin(&t);
	map_large(argc > 1 ? strtoul(argv[1], NULL, 0) : GIB);
	for (int i = 0; i < CHANGERS; i++)
		if (pthread_create(&thread, NULL, change, NULL) != 0)
			attack_die("no thread");
	attack_begun();
	for (;;) {
		mr = ibv_reg_mr(t.pd, shared, MR_BYTES, IBV_ACCESS_LOCAL_WRITE);
		if (mr != NULL)
			ibv_dereg_mr(mr);
	}
}
