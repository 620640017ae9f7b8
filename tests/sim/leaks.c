/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts blocks of memory and mappings that are in use, so that a seed that leaves some behind is found. These functions take the place of libc's,
 * for the libraries too; libc's own names for them are those that its manual gives for replacements. With a sanitizer, which has its own, nothing is counted.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *p);

static _Atomic int64_t in_use;

int64_t
leaks_in_use(void)
{
	return in_use;
}

static void *
counted(void *p)
{
	in_use += p != NULL;
	return p;
}

void *
malloc(size_t bytes)
{
	return counted(__libc_malloc(bytes));
}

void *
calloc(size_t n, size_t bytes)
{
	return counted(__libc_calloc(n, bytes));
}

void *
realloc(void *p, size_t bytes)
{
	void *q = __libc_realloc(p, bytes);

	if (p == NULL)
		return counted(q);
	in_use -= bytes == 0 && q == NULL;
	return q;
}

void *
aligned_alloc(size_t align, size_t bytes)
{
	return counted(__libc_memalign(align, bytes));
}

int
posix_memalign(void **p, size_t align, size_t bytes)
{
	*p = counted(__libc_memalign(align, bytes));
	return *p != NULL ? 0 : ENOMEM;
}

void
free(void *p)
{
	in_use -= p != NULL;
	__libc_free(p);
}

/* Pools of the transport are mappings. */
void *
mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	long p = syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);

	in_use += p != -1;
	return (void *)(uintptr_t)p;
}

int
munmap(void *at, size_t bytes)
{
	in_use--;
	return (int)syscall(SYS_munmap, at, bytes);
}

#else

int64_t
leaks_in_use(void)
{
	return 0;
}

#endif
