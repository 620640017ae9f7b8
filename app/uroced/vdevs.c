/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices of the command line (--vdev), while another daemon has what they stand for. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <net/if.h>

#include <rte_common.h>
#include <rte_dev.h>

#include "base/process.h"
#include "net/net.h"
#include "nice.h"
#include "uroced.h"

enum { PLACE_US = 20000000 /* without what the looks take */, PLACE_STEP_US = 200 };

/** @return the value of option @p name in argv[i], *@p words of it; NULL if it isn't that option. */
static char *
value_of(int argc, char **argv, int i, const char *name, int *words)
{
	size_t n = strlen(name);

	*words = 1;
	if (strncmp(argv[i], name, n) != 0)
		return NULL;
	if (argv[i][n] == '=')
		return argv[i] + n + 1;
	if (argv[i][n] != '\0' || i + 1 >= argc)
		return NULL;
	*words = 2;
	return argv[i + 1];
}

/** @param option  --take-over or --standby. @return 0 if the port's device can go from one process to another, else -1 with a message printed. */
static int
check_port(const struct uroced *u, const struct options *o, const char *option, const struct net_port_config *port)
{
	bool xdp = strncmp(port->ethdev, "net_af_xdp", strlen("net_af_xdp")) == 0;

	if (strchr(port->ethdev, ':') != NULL)
		return complain("%s: port %s is a PCI device, which EAL opens when it starts: %s", option, port->name,
				o->standby ? "it can't have a standby; after a crash start the next daemon without --standby" :
					     "stop the other daemon, and start this one without --take-over");
	if (xdp && o->standby)
		return complain("%s: port %s: what a daemon that has crashed leaves of net_af_xdp is removed at some time after it: it can't have a standby", option,
				port->name);
	if (xdp && u->privileges.id.drop)
		return complain("%s: port %s: a daemon without root's rights can't give net_af_xdp's queues back in time: stop it, and start this "
				"one without --take-over, or set daemon.user = root", option, port->name);
	return 0;
}

int
take_vdevs(const struct uroced *u, struct options *o, const char *option, struct vdevs *v)
{
	char **argv = calloc((size_t)o->eal_argc + 3, sizeof(*argv)), *value, *prefix = NULL;
	int argc = 0, words;

	*v = (struct vdevs){ .n = 0 };
	if (argv == NULL)
		return complain("no memory");
	for (unsigned int s = 0; s < o->nb_stacks; s++)
		for (unsigned int i = 0; i < u->confs[s].nb_ports; i++)
			if (check_port(u, o, option, &u->confs[s].ports[i].net) != 0)
				return -1;
	for (int i = 0; i < o->eal_argc; i += words) {
		if ((value = value_of(o->eal_argc, o->eal_argv, i, "--vdev", &words)) != NULL) {
			if (v->n == VDEVS_MAX)
				return complain("more than %d --vdev", VDEVS_MAX);
			v->args[v->n++] = value;
		} else if ((value = value_of(o->eal_argc, o->eal_argv, i, "--file-prefix", &words)) != NULL) {
			prefix = value;
		} else {
			argv[argc++] = o->eal_argv[i];
		}
	}
	/* EAL's files are the other daemon's as long as that runs. Both strings live as long as the process. */
	if (asprintf(&argv[argc], "--file-prefix=%s.%d", prefix != NULL ? prefix : "rte", (int)getpid()) < 0)
		return complain("no memory");
	o->eal_argc = argc + 1;
	o->eal_argv = argv;
	return 0;
}

/** @param sa  Receives the socket of a device of net_memif. @return false: it is another device, or its socket is an abstract one. */
static bool
memif_socket(const char *args, struct sockaddr_un *sa)
{
	const char *path = strstr(args, ",socket=/");

	if (strncmp(args, "net_memif", strlen("net_memif")) != 0 || path == NULL)
		return false;
	path += strlen(",socket=");
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(sa->sun_path, sizeof(sa->sun_path), "%.*s", (int)strcspn(path, ","), path);
	return true;
}

/** @param sa  Receives the socket on which a memif server listens. @return false: @p args is no such device. */
static bool
memif_server(const char *args, struct sockaddr_un *sa)
{
	return strstr(args, "role=server") != NULL && memif_socket(args, sa);
}

/** @return the number of the process that listens; 0: nobody does; -1: it can't be told. */
static int
listener(const struct sockaddr_un *sa)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), number = -1;
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) != 0)
		number = errno == ECONNREFUSED || errno == ENOENT ? 0 : -1;
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid > 0)
		number = peer.pid;
	close(fd);
	return number;
}

/**
 * Remove the socket on which a memif server listened: net_memif can't listen on it again, and a daemon that had given up root's rights couldn't remove
 * it itself.
 * @param before  A process that will run no code again, but may still be listening; or 0.
 */
static void
remove_memif_socket(const char *args, int before)
{
	struct sockaddr_un sa;
	struct stat st;
	int by;

	if (!memif_server(args, &sa) || lstat(sa.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return;
	/* Another program may listen there. */
	by = listener(&sa);
	if (by == 0 || (before != 0 && by == before))
		unlink(sa.sun_path);
}

void
remove_memif_sockets(const struct options *o)
{
	int words;

	for (int i = 0; i < o->eal_argc; i += words) {
		const char *value = value_of(o->eal_argc, o->eal_argv, i, "--vdev", &words);

		if (value != NULL)
			remove_memif_socket(value, 0);
	}
}

/* ---- Beside the other daemon ---- */
/** @param netdev  Receives the interface that a device of net_af_packet stands for. @return false: it is another device. */
static bool
packet_netdev(const char *args, char netdev[IF_NAMESIZE])
{
	const char *name = strstr(args, ",iface=");

	if (strncmp(args, "net_af_packet", strlen("net_af_packet")) != 0 || name == NULL)
		return false;
	name += strlen(",iface=");
	return snprintf(netdev, IF_NAMESIZE, "%.*s", (int)strcspn(name, ","), name) < IF_NAMESIZE;
}

static void
close_vdev(struct vdevs *v, unsigned int i)
{
	char name[RTE_DEV_NAME_MAX_LEN];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(v->args[i], ","), v->args[i]);
	rte_eal_hotplug_remove("vdev", name);
	v->open[i] = false;
}

/** @return 0, or -1 with a message printed. */
static int
open_vdev(struct vdevs *v, unsigned int i)
{
	int rc = rte_dev_probe(v->args[i]);

	if (rc != 0)
		return complain("--vdev %s: %s", v->args[i], strerror(abs(rc)));
	v->open[i] = true;
	return 0;
}

int
open_beside(struct vdevs *v)
{
	char netdev[IF_NAMESIZE];

	for (unsigned int i = 0; i < v->n; i++) {
		if (!packet_netdev(v->args[i], netdev) || if_nametoindex(netdev) == 0 || net_packet_group_is_taken(netdev))
			continue;
		if (open_vdev(v, i) != 0)
			return -1;
		if (!net_packet_sockets_mute(netdev))
			close_vdev(v, i);
	}
	return 0;
}

/** @return whether a device of net_memif can be opened: both its ends are ours, and its socket is gone. */
static bool
memif_is_free(const struct vdevs *v, unsigned int i)
{
	struct sockaddr_un sa, server;

	if (!memif_socket(v->args[i], &sa) || access(sa.sun_path, F_OK) == 0)
		return false;
	/* A server in another process must notice first that its client is gone. */
	for (unsigned int k = 0; k < v->n; k++)
		if (memif_server(v->args[k], &server) && strcmp(server.sun_path, sa.sun_path) == 0)
			return true;
	return false;
}

/**
 * @param ends  The process in whose place we are runs no code again, so that it removes no socket.
 * @return whether its place is free: all devices are open already or can be, and nobody has what only one daemon can have.
 */
static bool
place_is_free(const struct vdevs *v, const struct uroced *u, bool ends)
{
	char netdev[IF_NAMESIZE];

	for (unsigned int i = 0; i < v->n; i++)
		if (v->open[i] ? packet_netdev(v->args[i], netdev) && net_roce_port_is_taken(netdev) : !ends || !memif_is_free(v, i))
			return false;
	for (unsigned int i = 0; i < u->nb_stacks; i++)
		if (control_names_are_taken(&u->confs[i]))
			return false;
	return true;
}

/** Process @p before runs no code again. */
static void
take_place(const struct vdevs *v, int before)
{
	nice_ending(before);
	for (unsigned int i = 0; i < v->n; i++)
		remove_memif_socket(v->args[i], before);
}

bool
vdevs_wait(const struct vdevs *v, const struct uroced *u, int process, bool crashed)
{
	const struct timespec step = { .tv_nsec = PLACE_STEP_US * 1000 };
	struct pollfd p = { .fd = process, .events = POLLIN };
	bool there = process < 0, ended = false;

	for (int us = 0; !there && us < PLACE_US; us += PLACE_STEP_US) {
		enum process_state state = process_state(process);
		bool ends = state == PROCESS_ENDS;

		/* Once: a connection that nobody accepts is one of the few that a socket may have. */
		if (ends && !ended)
			take_place(v, process_number(process));
		ended |= ends;
		there = state == PROCESS_GONE || ((!crashed || ends) && place_is_free(v, u, ends));
		if (!there)
			(void)ppoll(&p, 1, &step, NULL);
	}
	if (process >= 0)
		close(process);
	return there;
}

int
probe_vdevs(struct vdevs *v)
{
	char netdev[IF_NAMESIZE];

	for (unsigned int i = 0; i < v->n; i++) {
		/* An interface that was made anew meanwhile has the same name only. */
		if (v->open[i] && packet_netdev(v->args[i], netdev) && !net_packet_sockets_there(netdev))
			close_vdev(v, i);
		if (v->open[i])
			continue;
		remove_memif_socket(v->args[i], 0);
		if (open_vdev(v, i) != 0)
			return -1;
	}
	return 0;
}
