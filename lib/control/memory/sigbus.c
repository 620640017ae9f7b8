/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of mappings is a plain array. The handler only does loads, one mmap() and a write() per control thread, all
 * of which are safe in a signal handler.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/memory/sigbus_priv.h"

struct entry {
	_Atomic uintptr_t base; /* 0: free; stored last, cleared first */
	_Atomic size_t bytes;
	_Atomic(_Atomic uint32_t *) victim;
};

static struct entry entries[SIGBUS_MAX_MAPS];
static _Atomic uint32_t high; /* entries from here on were never used */
static uint32_t free_ids[SIGBUS_MAX_MAPS];
static uint32_t nb_free;
static _Atomic int wake_fds[SIGBUS_MAX_WAKES]; /* descriptor + 1; 0: free */
static unsigned int nb_wakes;
static struct sigaction before_us;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects free_ids, nb_free, nb_wakes, before_us */

/** Wake all control threads; each looks for those of its sessions that lost memory. */
static void
wake_all(void)
{
	const uint64_t one = 1;
	int fd;

	for (unsigned int i = 0; i < SIGBUS_MAX_WAKES; i++) {
		fd = atomic_load(&wake_fds[i]) - 1;
		/* write() fails if the eventfd is full; then it is readable already. */
		if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
			continue;
	}
}

/** If the address is in a program's mapping, map zero pages there. @return true if it was. */
static bool
repair(uintptr_t addr)
{
	uint32_t n = atomic_load(&high), i;
	_Atomic uint32_t *victim;
	uintptr_t base;
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
		wake_all();
		return true;
	}
	return false;
}

static void
on_sigbus(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	/* Only real faults have an address; a SIGBUS sent by kill() has none. */
	if (info->si_code > 0 && repair((uintptr_t)info->si_addr)) {
		errno = saved;
		return;
	}
	if (before_us.sa_handler != SIG_DFL && before_us.sa_handler != SIG_IGN) {
		errno = saved;
		if (before_us.sa_flags & SA_SIGINFO)
			before_us.sa_sigaction(sig, info, context);
		else
			before_us.sa_handler(sig);
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
	int rc = EMFILE;

	sigemptyset(&sa.sa_mask);
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < SIGBUS_MAX_WAKES && rc == EMFILE; i++) {
		if (atomic_load(&wake_fds[i]) != 0)
			continue;
		rc = nb_wakes == 0 && sigaction(SIGBUS, &sa, &before_us) != 0 ? errno : 0;
		if (rc == 0) {
			atomic_store(&wake_fds[i], event_fd + 1);
			nb_wakes++;
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void
sigbus_uninstall(int event_fd)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; event_fd >= 0 && i < SIGBUS_MAX_WAKES; i++) {
		if (atomic_load(&wake_fds[i]) != event_fd + 1)
			continue;
		atomic_store(&wake_fds[i], 0);
		if (--nb_wakes == 0)
			sigaction(SIGBUS, &before_us, NULL);
		break;
	}
	pthread_mutex_unlock(&lock);
}

int
sigbus_add(void *base, size_t bytes, _Atomic uint32_t *victim)
{
	uint32_t id, n;

	pthread_mutex_lock(&lock);
	n = atomic_load(&high);
	id = nb_free > 0 ? free_ids[--nb_free] : n;
	if (id < SIGBUS_MAX_MAPS) {
		atomic_store(&entries[id].victim, victim);
		atomic_store(&entries[id].bytes, bytes);
		atomic_store(&entries[id].base, (uintptr_t)base);
		if (id == n)
			atomic_store(&high, n + 1);
	}
	pthread_mutex_unlock(&lock);
	return id < SIGBUS_MAX_MAPS ? (int)id : -1;
}

void
sigbus_remove(int id)
{
	pthread_mutex_lock(&lock);
	atomic_store(&entries[id].base, 0);
	free_ids[nb_free++] = (uint32_t)id;
	pthread_mutex_unlock(&lock);
}
