/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A gate between net_memif and its peer. Packets are in memory that one end of a memif has mapped from the other. When the peer ends, the
 * PMD unmaps it on EAL's interrupt thread while engines may be in the middle of a burst, and the PMD has nothing with which to tell them
 * before. What it goes by is its control socket: end of file, or a message.
 *
 *   PMD ── control socket ── peer        becomes        PMD ── pair ── gate ── control socket ── peer
 *
 * So when the link has come up, one end of a socketpair takes the place of the control socket in its descriptor, and we keep the socket.
 * When the peer ends, the control thread stops engines' use of the port first and closes the pair then. Engines don't use the port before
 * the gate stands.
 *
 * All of this is done on EAL's interrupt thread, which is the only one that opens and closes these sockets.
 * EAL's epoll still has the old socket, under the same descriptor number, until it is made anew, as it is when a callback for another
 * descriptor is registered. The first call of that callback (the probe) shows that it was. Should the old socket become readable before,
 * the PMD finds its new one empty and disconnects, which is safe: no engine uses the port yet.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_interrupts.h>

#include "net/port/port_priv.h"
#include "net/port/track.h"

enum {
	GATES_MAX = 64,           /* in a process */
	GATE_MESSAGE_BYTES = 256, /* memif's are 128 */
	GATE_MESSAGES = 64,       /* passed on at a time */
	GATE_STEP_US = 100,
	GATE_STEPS = 10000,
};
#define MEMIF_DEFAULT_SOCKET "/run/memif.sock" /* drivers/net/memif, ETH_MEMIF_DEFAULT_SOCKET_FILENAME */

enum gate_state {
	GATE_OFF,
	GATE_WANTED, /* by the control thread */
	GATE_PROBED, /* it stands, but EAL may still look at the old socket */
	GATE_ON,
	GATE_NONE,   /* it is not known which socket is this port's */
};

struct port_gate {
	struct net_port *p;
	_Atomic enum gate_state state;
	int pair, peer;        /* in PROBED and ON: our end of the pair, the control socket */
	unsigned int place;    /* of peer in peers */
	struct probe *probe;   /* [interrupt thread] the latest */
	_Atomic uint32_t probes; /* not freed yet */
};

/** A callback of EAL, with a descriptor that is readable from the beginning. */
struct probe {
	struct port_gate *gate;
	struct rte_intr_handle *handle;
	int fd;
};

/** Control sockets that gates of this process have, plus 1; 0: a free place. Others must not take them for their own. */
static _Atomic int peers[GATES_MAX];

static bool
is_taken(int fd)
{
	for (unsigned int i = 0; i < GATES_MAX; i++)
		if (atomic_load(&peers[i]) == fd + 1)
			return true;
	return false;
}

/** @return false: there are GATES_MAX already. */
static bool
take(struct port_gate *g, int fd)
{
	for (g->place = 0; g->place < GATES_MAX; g->place++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&peers[g->place], &none, fd + 1))
			return true;
	}
	return false;
}

/* ---- Which socket it is ---- */
static int
option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/** @return whether @p fd is a connection of @p p's memif: a client's peer, or a server's own end, has the name of the socket. */
static bool
is_control_socket(const struct net_port *p, int fd)
{
	const char *socket = p->wire[0] != '\0' && p->wire[0] != ' ' ? p->wire : MEMIF_DEFAULT_SOCKET;
	size_t n = strcspn(socket, " ");
	struct sockaddr_un sun;
	char name[sizeof(sun.sun_path) + 1] = "";
	socklen_t len = sizeof(sun);
	const char *path;

	if (option(fd, SO_DOMAIN) != AF_UNIX || option(fd, SO_TYPE) != SOCK_SEQPACKET || option(fd, SO_ACCEPTCONN) != 0 || is_taken(fd))
		return false;
	memset(&sun, 0, sizeof(sun));
	if ((p->priv->pmd.needs_peer ? getpeername(fd, (struct sockaddr *)&sun, &len) : getsockname(fd, (struct sockaddr *)&sun, &len)) != 0)
		return false;
	memcpy(name, sun.sun_path, sizeof(sun.sun_path));
	path = name[0] == '\0' ? name + 1 : name; /* abstract */
	return strncmp(path, socket, n) == 0 && path[n] == '\0';
}

/** @return the descriptor; -1: there is none; -2: there are several. */
static int
find_control_socket(const struct net_port *p)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *d;
	int found = -1;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.' || !is_control_socket(p, atoi(d->d_name)))
			continue;
		found = found == -1 ? atoi(d->d_name) : -2;
	}
	if (dir != NULL)
		closedir(dir);
	return found;
}

/* ---- Making it [EAL's interrupt thread] ---- */
/** @param handle  EAL's copy, which it frees. */
static void
probe_free(struct rte_intr_handle *handle, void *arg)
{
	struct probe *probe = arg;
	struct port_gate *g = probe->gate;

	close(probe->fd);
	rte_intr_instance_free(probe->handle);
	free(probe);
	atomic_fetch_sub(&g->probes, 1);
}

static void
on_probe(void *arg)
{
	struct probe *probe = arg;
	struct port_gate *g = probe->gate;
	enum gate_state probed = GATE_PROBED;
	uint64_t n;

	if (read(probe->fd, &n, sizeof(n)) != sizeof(n))
		return;
	if (g->probe == probe && atomic_compare_exchange_strong(&g->state, &probed, GATE_ON))
		events_put(g->p, PORT_EV_LINK);
	rte_intr_callback_unregister_pending(probe->handle, on_probe, probe, probe_free);
}

/** @return 0, or -1: EAL's epoll stays as it is. */
static int
send_probe(struct port_gate *g)
{
	struct probe *probe = calloc(1, sizeof(*probe));

	if (probe == NULL)
		return -1;
	probe->gate = g;
	probe->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	probe->handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	g->probe = probe;
	atomic_fetch_add(&g->probes, 1);
	if (probe->fd >= 0 && probe->handle != NULL && rte_intr_fd_set(probe->handle, probe->fd) == 0 &&
	    rte_intr_type_set(probe->handle, RTE_INTR_HANDLE_EXT) == 0 && rte_intr_callback_register(probe->handle, on_probe, probe) == 0)
		return 0;
	g->probe = NULL;
	probe_free(probe->handle, probe);
	return -1;
}

/** Put the pair's other end in the place of the control socket @p fd. @return 0, or -1: nothing has changed. */
static int
put_between(struct port_gate *g, int fd)
{
	int pair[2];

	g->peer = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (g->peer < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		goto close_peer;
	if (!take(g, g->peer))
		goto close_pair;
	if (dup3(pair[1], fd, O_CLOEXEC) < 0)
		goto untake;
	close(pair[1]);
	g->pair = pair[0];
	return 0;
untake:
	atomic_store(&peers[g->place], 0);
close_pair:
	close(pair[0]);
	close(pair[1]);
close_peer:
	close(g->peer);
	return -1;
}

static void
make_gate(void *arg)
{
	struct port_gate *g = arg;
	int fd = find_control_socket(g->p);

	if (fd < 0 || put_between(g, fd) != 0) {
		/* -1: it has just been closed, so the link is down again. */
		atomic_store(&g->state, fd == -1 ? GATE_OFF : GATE_NONE);
	} else {
		/* The probe may be called before send_probe() returns only on this thread, so it isn't. */
		atomic_store(&g->state, GATE_PROBED);
		if (send_probe(g) == 0)
			return;
	}
	events_put(g->p, PORT_EV_LINK);
}

/* ---- The control thread's side ---- */
int
gate_open(struct net_port *p)
{
	if (!p->priv->pmd.peer_messages)
		return 0;
	p->priv->gate = calloc(1, sizeof(*p->priv->gate));
	if (p->priv->gate == NULL)
		return ENOMEM;
	p->priv->gate->p = p;
	return 0;
}

bool
net_port_is_guarded(const struct net_port *p)
{
	return p->priv->gate != NULL;
}

bool
net_port_guard(struct net_port *p)
{
	struct port_gate *g = p->priv->gate;
	enum gate_state s = atomic_load(&g->state);

	if (s == GATE_OFF) {
		atomic_store(&g->state, GATE_WANTED);
		if (rte_eal_alarm_set(1, make_gate, g) != 0)
			atomic_store(&g->state, GATE_OFF);
	}
	return s == GATE_ON || s == GATE_NONE;
}

unsigned int
net_port_guard_fds(const struct net_port *p, int fds[2])
{
	const struct port_gate *g = p->priv->gate;

	if (g == NULL || atomic_load(&g->state) != GATE_ON)
		return 0;
	fds[0] = g->pair;
	fds[1] = g->peer;
	return 2;
}

/** Pass on what the PMD has sent. @return false: it has closed its end. */
static bool
pass_on(const struct port_gate *g)
{
	uint8_t message[GATE_MESSAGE_BYTES];
	ssize_t n = 0;

	for (unsigned int i = 0; i < GATE_MESSAGES; i++) {
		n = recv(g->pair, message, sizeof(message), MSG_DONTWAIT);
		if (n <= 0)
			break;
		if (send(g->peer, message, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			return false;
	}
	return n > 0 || (n < 0 && errno == EAGAIN);
}

void
net_port_guard_run(struct net_port *p)
{
	const struct port_gate *g = p->priv->gate;
	char c;

	/* Once the link is up a peer sends nothing but that it goes. */
	if (!pass_on(g) || recv(g->peer, &c, sizeof(c), MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
		events_put(p, PORT_EV_PEER_GONE);
}

void
net_port_release(struct net_port *p)
{
	struct port_gate *g = p->priv->gate;
	enum gate_state s = g != NULL ? atomic_load(&g->state) : GATE_OFF;

	if (s == GATE_PROBED || s == GATE_ON) {
		pass_on(g);
		atomic_store(&peers[g->place], 0);
		close(g->pair);
		close(g->peer);
	}
	if (s != GATE_OFF && s != GATE_WANTED)
		atomic_store(&g->state, GATE_OFF);
}

void
gate_stop(struct net_port *p)
{
	if (p->priv->gate != NULL)
		rte_eal_alarm_cancel(make_gate, p->priv->gate);
}

void
gate_close(struct net_port *p)
{
	struct port_gate *g = p->priv->gate;

	if (g == NULL)
		return;
	net_port_release(p);
	for (unsigned int i = 0; i < GATE_STEPS && atomic_load(&g->probes) > 0; i++)
		usleep(GATE_STEP_US);
	if (atomic_load(&g->probes) == 0)
		free(g);
	p->priv->gate = NULL;
}
