/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The register is a plain array that the handler scans: nothing but loads, one mmap() and one write() happens in it,
 * all of which are safe in a signal handler.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sigbus.h"

struct entry {
	_Atomic uintptr_t base; /* 0: free; stored last, cleared first */
	_Atomic size_t bytes;
	_Atomic(_Atomic uint32_t *) victim;
};

static struct entry entries[SIGBUS_MAX_MAPS];
static _Atomic uint32_t high; /* entries at and above were never used */
static uint32_t free_ids[SIGBUS_MAX_MAPS];
static uint32_t nb_free;
static int wake_fd = -1;

/** @return true if the address lay in a program's mapping and can be used now. */
static bool
repair(uintptr_t addr)
{
	uint32_t n = atomic_load(&high), i;
	_Atomic uint32_t *victim;
	uintptr_t base;
	uint64_t one = 1;
	size_t bytes;

	for (i = 0; i < n; i++) {
		base = atomic_load(&entries[i].base);
		bytes = atomic_load(&entries[i].bytes);
		if (base == 0 || addr < base || addr - base >= bytes)
			continue;
		victim = atomic_load(&entries[i].victim);
		if (mmap((void *)base, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
			return false;
		atomic_store(victim, 1);
		/* A full eventfd is readable already. */
		return write(wake_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN;
	}
	return false;
}

static void
on_sigbus(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	/* Only faults have an address; a SIGBUS that somebody sent (kill) has not. */
	if (info->si_code > 0 && repair((uintptr_t)info->si_addr)) {
		errno = saved;
		return;
	}
	signal(sig, SIG_DFL);
	raise(sig);
	errno = saved;
}

int
sigbus_install(int event_fd)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };

	wake_fd = event_fd;
	sigemptyset(&sa.sa_mask);
	return sigaction(SIGBUS, &sa, NULL) == 0 ? 0 : errno;
}

int
sigbus_add(void *base, size_t bytes, _Atomic uint32_t *victim)
{
	uint32_t id, n = atomic_load(&high);

	if (nb_free > 0)
		id = free_ids[--nb_free];
	else if (n < SIGBUS_MAX_MAPS)
		id = n;
	else
		return -1;
	atomic_store(&entries[id].victim, victim);
	atomic_store(&entries[id].bytes, bytes);
	atomic_store(&entries[id].base, (uintptr_t)base);
	if (id == n)
		atomic_store(&high, n + 1);
	return (int)id;
}

void
sigbus_remove(int id)
{
	atomic_store(&entries[id].base, 0);
	free_ids[nb_free++] = (uint32_t)id;
}
