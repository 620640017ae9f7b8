/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Kicks: eventfds that sleeping engines are woken by. An epoll for each CPU has all of them, of the engine and of its sessions,
 * edge-triggered; nobody reads them, so nothing that a client does with its eventfd can make an engine wait.
 *
 * The engines of a loop share their epolls. With an epoll per engine inside the loop's, each wake-up would cost a
 * microsecond more.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/tsan.h"
#include "engine/engine_priv.h"

enum { KICKS = 64 };    /* taken at a time */
/* In place of a session's ID plus one. */
#define PORT(index) (UINT32_MAX - (index))

struct kick_set {
	unsigned int nb_cpus;
	int epfds[ENGINE_CPUS_MAX];
	struct engine *engines[ENGINE_LOOP_MAX]; /**< NULL: none */
};

/* What epolls say of an eventfd: whose it is. 0: of the loop. */
static uint64_t
tag(const struct engine *e, uint32_t session)
{
	return (uint64_t)(e->kick_index + 1) << 32 | session;
}

static int
add(const struct kick_set *k, unsigned int cpu, int fd, uint64_t data)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = data };

	return epoll_ctl(k->epfds[cpu], EPOLL_CTL_ADD, fd, &ev) == 0 ? 0 : errno;
}

int
kicks_watch(struct engine *e, unsigned int cpu, int fd, uint32_t session)
{
	return add(e->kick_set, cpu, fd, tag(e, session));
}

void
kicks_unwatch(struct engine *e, unsigned int cpu, int fd)
{
	epoll_ctl(e->kick_set->epfds[cpu], EPOLL_CTL_DEL, fd, NULL);
}

int
kicks_watch_loop(struct engine *e, unsigned int cpu, int fd)
{
	return add(e->kick_set, cpu, fd, 0);
}

static void
set_free(struct kick_set *k)
{
	for (unsigned int i = 0; i < ENGINE_CPUS_MAX; i++)
		if (k->epfds[i] >= 0)
			close(k->epfds[i]);
	free(k);
}

/** Leave the set; the last one frees it. */
static void
leave(struct engine *e)
{
	struct kick_set *k = e->kick_set;

	e->kick_set = NULL;
	k->engines[e->kick_index] = NULL;
	for (unsigned int i = 0; i < ENGINE_LOOP_MAX; i++)
		if (k->engines[i] != NULL)
			return;
	set_free(k);
}

static struct kick_set *
set_create(unsigned int nb_cpus)
{
	struct kick_set *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->nb_cpus = nb_cpus;
	for (unsigned int i = 0; i < ENGINE_CPUS_MAX; i++)
		k->epfds[i] = -1;
	for (unsigned int i = 0; i < nb_cpus; i++) {
		k->epfds[i] = epoll_create1(EPOLL_CLOEXEC);
		if (k->epfds[i] < 0) {
			int rc = errno;

			set_free(k);
			errno = rc;
			return NULL;
		}
	}
	return k;
}

void
kicks_watch_port(struct engine *e, uint16_t port)
{
	const struct net_port *p = e->c.ports[port];
	int fd = net_port_wake_fd(p, (uint16_t)e->c.id), rc = fd >= 0 ? add(e->kick_set, 0, fd, tag(e, PORT(port))) : EBADF;

	if (net_port_wake_is_doubtful(p))
		atomic_fetch_and_explicit(&e->proven, ~(UINT32_C(1) << port), memory_order_relaxed);
	else
		atomic_fetch_or_explicit(&e->proven, UINT32_C(1) << port, memory_order_relaxed);

	/* EEXIST: it has the same descriptor as before. One that was closed has left the epoll. */
	if (rc == 0 || rc == EEXIST)
		e->waking |= UINT32_C(1) << port;
	else
		e->waking &= ~(UINT32_C(1) << port);
}

/** Let packets of the ports that have a descriptor for it wake the thread of the first CPU. */
static void
watch_ports(struct engine *e)
{
	e->waking = 0;
	for (uint16_t i = 0; i < e->c.nb_ports; i++)
		kicks_watch_port(e, i);
}

int
kicks_create(struct engine *e)
{
	int rc = 0;

	e->kick_set = set_create(engine_cpus(e));
	if (e->kick_set == NULL)
		return errno;
	e->kick_index = 0;
	e->kick_set->engines[0] = e;
	for (unsigned int i = 0; i < engine_cpus(e) && rc == 0; i++) {
		e->kick_fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		rc = e->kick_fds[i] >= 0 ? kicks_watch(e, i, e->kick_fds[i], 0) : errno;
	}
	watch_ports(e);
	return rc;
}

void
kicks_destroy(struct engine *e)
{
	for (unsigned int i = 0; i < ENGINE_CPUS_MAX; i++)
		if (e->kick_fds[i] >= 0)
			close(e->kick_fds[i]);
	if (e->kick_set != NULL)
		leave(e);
}

/** Watch the engine's own eventfd and those of its sessions. */
static int
watch_all(struct engine *e, unsigned int cpu)
{
	int rc = kicks_watch(e, cpu, e->kick_fds[cpu], 0);

	for (uint32_t i = 0; i < UROCE_MAX_SESSIONS && rc == 0; i++)
		if (e->sessions[i] != NULL && e->sessions[i]->kick_fds[cpu] >= 0)
			rc = kicks_watch(e, cpu, e->sessions[i]->kick_fds[cpu], i + 1);
	return rc;
}

int
kicks_share(struct engine *e, struct engine *with)
{
	struct kick_set *k = with->kick_set;
	unsigned int index = 0;
	int rc = 0;

	UROCE_ASSERT(engine_cpus(e) == k->nb_cpus);
	if (e->kick_set == k)
		return 0;
	while (index < ENGINE_LOOP_MAX && k->engines[index] != NULL)
		index++;
	if (index == ENGINE_LOOP_MAX)
		return ENOSPC;
	leave(e);
	e->kick_set = k;
	e->kick_index = index;
	k->engines[index] = e;
	for (unsigned int i = 0; i < k->nb_cpus && rc == 0; i++)
		rc = watch_all(e, i);
	watch_ports(e);
	return rc;
}

/** Note for sessions_kicked() that a session has kicked. */
static void
note(struct engine *e, uint32_t session, unsigned int cpu)
{
	tsan_release(e->kicks);
	if (rte_ring_enqueue(e->kicks, KICK(session, cpu)) != 0)
		atomic_store_explicit(&e->kicks_lost, 1, memory_order_release);
}

bool
kicks_take(struct engine *e, unsigned int cpu, const struct timespec *timeout)
{
	const struct kick_set *k = e->kick_set;
	struct epoll_event ev[KICKS];
	int n = epoll_pwait2(k->epfds[cpu], ev, KICKS, timeout, NULL);
	bool kicked = false;

	for (int i = 0; i < n; i++) {
		uint32_t session = (uint32_t)ev[i].data.u64;
		struct engine *of;

		if (ev[i].data.u64 == 0)
			continue;
		of = k->engines[(ev[i].data.u64 >> 32) - 1];
		if (session > PORT(UROCE_MAX_PORTS)) {
			atomic_fetch_or_explicit(&of->proven, UINT32_C(1) << (UINT32_MAX - session), memory_order_relaxed);
			continue;
		}
		kicked = true;
		if (session != 0)
			note(of, session - 1, cpu);
	}
	return kicked;
}
