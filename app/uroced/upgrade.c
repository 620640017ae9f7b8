/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon gives its programs to another one, which takes them: uroced --take-over. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_dev.h>

#include "notify.h"
#include "uroced.h"

/* ---- The daemon that goes ---- */
int
give_asked(void *arg, int sock)
{
	struct uroced *u = arg;
	int nobody = -1, fd = fcntl(sock, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	if (!atomic_compare_exchange_strong(&u->asked, &nobody, fd)) {
		close(fd);
		return EBUSY;
	}
	uroce_control_stop(u->stacks[0]);
	return 0;
}

void
leave(struct uroced *u, pid_t successor)
{
	char path[BROKER_PATH_BYTES];

	survivor_end(&u->survivor);
	for (unsigned int i = 0; i < u->nb_stacks; i++) {
		const char *socket = u->confs[i].socket;

		stack_leave(u->stacks[i]);
		if (u->privileges.broker == NULL)
			continue;
		broker_keep(u->privileges.broker, socket);
		if ((size_t)snprintf(path, sizeof(path), "%s.sys", socket) < sizeof(path))
			broker_keep(u->privileges.broker, path);
	}
	/* The broker detaches what only root can detach from interfaces. */
	privileges_end(&u->privileges);
	if (successor != 0)
		notify_successor(successor);
	fflush(NULL);
	/* Without EAL's clean-up, which would only unmap memory that nobody uses any more. */
	_exit(EXIT_SUCCESS);
}

void
go_on(struct uroced *u)
{
	char err[UROCE_ERR_BYTES];

	if (launch_engines(u) != 0)
		complain("no engine runs any more; the daemon must be started again");
	suspend_undo(u->stacks, u->nb_stacks);
	for (unsigned int i = 1; i < u->nb_stacks; i++)
		if (uroce_control_start(u->stacks[i], err) != 0)
			complain("%s", err);
}

int
write_down(struct uroced *u, struct stream_out *o)
{
	for (unsigned int i = 1; i < u->nb_stacks; i++)
		uroce_control_stop(u->stacks[i]);
	suspend_settle(u->stacks, u->nb_stacks);
	stop_engines(u);
	return suspend_save(u->stacks, u->nb_stacks, o);
}

bool
give_programs(struct uroced *u)
{
	int sock = atomic_load(&u->asked), rc;
	char text[TALK_TEXT_BYTES] = "";
	struct stream_out o = { 0 };
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	printf("uroced: another daemon, pid %d, takes over\n", (int)peer.pid);
	fflush(stdout);
	rc = write_down(u, &o);
	if (rc == 0)
		rc = talk_send(sock, &o, text);
	else
		snprintf(text, sizeof(text), "%s", suspend_why(rc));
	if (rc == 0)
		leave(u, peer.pid);
	complain("the other daemon, pid %d, didn't take over: %s. This one goes on", (int)peer.pid, text);
	stream_free(&o);
	go_on(u);
	close(sock);
	atomic_store(&u->asked, -1);
	return false;
}

/* ---- The daemon that comes ---- */
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

	v->n = 0;
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

int
check_programs(struct uroced *u, const struct options *o, struct stream_in *in, char *text)
{
	return suspend_check(in, u->confs, o->nb_stacks, u->nb_engines, u->nb_cpus, text);
}

int
take_programs(struct uroced *u, const struct options *o, struct stream_in *in)
{
	char text[TALK_TEXT_BYTES];
	struct talk t;

	if (talk_ask(u->confs[0].socket, &t, in, text) != 0)
		return complain("--take-over: %s", text);
	if (check_programs(u, o, in, text) != 0) {
		talk_reply(&t, EINVAL, text);
		return complain("--take-over: the daemon at %s goes on: %s", u->confs[0].socket, text);
	}
	if (talk_reply(&t, 0, "") != 0)
		return complain("--take-over: the daemon at %s has handed its programs over, but doesn't end", u->confs[0].socket);
	return 0;
}

/**
 * Remove the socket on which a memif server listened: net_memif can't listen on it again, and a daemon that had given up root's rights couldn't remove
 * it itself.
 */
static void
remove_memif_socket(const char *args)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path = strstr(args, ",socket=/");
	struct stat st;
	int fd;

	if (strncmp(args, "net_memif", strlen("net_memif")) != 0 || path == NULL || strstr(args, "role=server") == NULL)
		return;
	path += strlen(",socket=");
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%.*s", (int)strcspn(path, ","), path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* Another program may listen there. */
	if (lstat(sa.sun_path, &st) == 0 && S_ISSOCK(st.st_mode) && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 && errno == ECONNREFUSED)
		unlink(sa.sun_path);
	close(fd);
}

void
remove_memif_sockets(const struct options *o)
{
	int words;

	for (int i = 0; i < o->eal_argc; i += words) {
		const char *value = value_of(o->eal_argc, o->eal_argv, i, "--vdev", &words);

		if (value != NULL)
			remove_memif_socket(value);
	}
}

int
probe_vdevs(const struct vdevs *v)
{
	int rc;

	for (unsigned int i = 0; i < v->n; i++) {
		remove_memif_socket(v->args[i]);
		rc = rte_dev_probe(v->args[i]);
		if (rc != 0)
			return complain("--vdev %s: %s", v->args[i], strerror(abs(rc)));
	}
	return 0;
}
