/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced: the command line, EAL, and a stack (lib/uroce) whose control runs on the main lcore and whose engines run on
 * the others.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "common/notify.h"
#include "keep.h"
#include "log.h"
#include "nice.h"
#include "uroced.h"

enum { FDS_USUAL = 16384 };

int
complain(const char *fmt, ...)
{
	FILE *f = log_stream();
	va_list ap;

	va_start(ap, fmt);
	fputs("uroced: ", f);
	vfprintf(f, fmt, ap);
	fputc('\n', f);
	va_end(ap);
	return -1;
}

int
fds_usual(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_NOFILE, &l) == 0 ? (int)RTE_MIN(l.rlim_cur, (rlim_t)FDS_USUAL) : FDS_USUAL;
}

/**
 * Raise the limit of file descriptors: every session needs some. For an ordinary user it also limits the descriptors under way in sockets, of all replies
 * that programs haven't read. And have the kernel make its table of them large enough for most: with several threads it waits for an RCU grace period, ten
 * milliseconds and more, whenever that must grow (fs/file.c, expand_fdtable()).
 */
static void
raise_limits(void)
{
	struct rlimit l;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, fds_usual() - 1);
	if (fd >= 0)
		close(fd);
}

/**
 * Block the signals that the control loop reads from its signalfd, and SIGPIPE: write() to a closed pipe returns an
 * error.
 */
static void
block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/** Run on a worker lcore its loop. */
static int
run_engine(void *arg)
{
	struct uroced *u = arg;
	unsigned int i;

	for (i = 0; u->lcores[i] != rte_lcore_id(); i++)
		;
	if (u->nb_cpus > 0)
		engine_loop_run(u->loops[0], i);
	else
		engine_loop_run(u->loops[i], 0);
	return 0;
}

int
launch_engines(struct uroced *u)
{
	unsigned int lcores = u->nb_cpus > 0 ? u->nb_cpus : u->nb_engines;
	int rc;

	for (unsigned int i = 0; i < u->nb_engines; i++) {
		u->loops[i] = stacks_loop_create(u->stacks, u->nb_stacks, i);
		if (u->loops[i] == NULL)
			return complain("engine %u can't be run: %s", i, strerror(errno));
	}
	for (; u->nb_launched < lcores; u->nb_launched++) {
		rc = rte_eal_remote_launch(run_engine, u, u->lcores[u->nb_launched]);
		if (rc != 0)
			return complain("engine %u doesn't start on lcore %u: %s", u->nb_launched,
					u->lcores[u->nb_launched], strerror(-rc));
	}
	return 0;
}

void
stop_engines(struct uroced *u)
{
	for (unsigned int s = 0; s < u->nb_stacks; s++)
		for (unsigned int i = 0; i < u->nb_engines && u->nb_launched > 0; i++)
			uroce_engine_stop(u->stacks[s], i);
	if (u->nb_launched > 0)
		rte_eal_mp_wait_lcore();
	u->nb_launched = 0;
	for (unsigned int i = 0; i < u->nb_engines; i++) {
		stacks_loop_destroy(u->loops[i], u->stacks, u->nb_stacks, i);
		u->loops[i] = NULL;
	}
}

/** Undo bring_up(), also if it failed half-way. */
static void
take_down(struct uroced *u)
{
	unsigned int s;

	/* EAL complains that an ordinary user can't tidy up root's folders. */
	if (u->privileges.id.drop)
		rte_log_set_level_pattern("lib.eal", RTE_LOG_CRIT);
	/* While engines run: they send the last packets of connections. */
	for (s = 0; s < u->nb_stacks; s++)
		uroce_shutdown(u->stacks[s]);
	stop_engines(u);
	for (s = 0; s < u->nb_stacks; s++)
		uroce_destroy(u->stacks[s]);
	eal_end(u);
}

/**
 * --vdev net_impairN,port=ETHDEV,... sets `impair` of the port with that ethdev. Like everything on the command line it
 * overrides the file, so it is converted to a --set, which stays in force when the file is read again.
 */
static int
take_vdev(struct uroced *u, struct options *o, const struct impair_vdev *d)
{
	char names[CONFIG_ERR_BYTES] = "", *set;

	for (unsigned int s = 0; s < o->nb_stacks; s++) {
		struct options_stack *to = &o->stacks[s];

		for (unsigned int k = 0; k < u->confs[s].nb_ports; k++) {
			const struct config_port *p = &u->confs[s].ports[k];

			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", names[0] != '\0' ? ", " : "",
				 p->net.ethdev);
			if (strcmp(p->net.ethdev, d->port) != 0)
				continue;
			if (to->nb_sets == OPTIONS_MAX_SETS || asprintf(&set, "port %s.impair=%s", p->net.name,
									d->settings[0] != '\0' ? d->settings : "seed=1") < 0)
				return complain("--vdev %s: too many settings, or no memory", d->name);
			to->sets[to->nb_sets++] = set; /* lives as long as the process */
			return 0;
		}
	}
	return complain("--vdev %s: port=%s: no port of the configuration has this ethdev; there are: %s", d->name, d->port,
			names);
}

static void
tell(void *arg, const char *text)
{
	complain("%s", text);
}

/** Read the configurations. @return 0, or -1 with all mistakes printed. */
static int
load(struct uroced *u, const struct options *o)
{
	int rc = 0;

	for (unsigned int i = 0; i < o->nb_stacks; i++) {
		const struct options_stack *s = &o->stacks[i];

		if (config_load_telling(s->config, s->sets, s->nb_sets, &u->confs[i], tell, NULL) != 0)
			rc = -1;
	}
	return rc;
}

/** Read command line and configurations. @return 0, or -1 with a message printed. */
static int
configure(struct uroced *u, struct options *o)
{
	char err[CONFIG_ERR_BYTES];
	struct impair_vdevs vdevs;

	if (impair_vdevs_take(&o->eal_argc, o->eal_argv, &vdevs, err, sizeof(err)) != 0)
		return complain("%s", err);
	if (load(u, o) != 0)
		return -1;
	for (unsigned int i = 0; i < vdevs.n; i++)
		if (take_vdev(u, o, &vdevs.vdev[i]) != 0)
			return -1;
	return vdevs.n > 0 ? load(u, o) : 0;
}

int
main(int argc, char **argv)
{
	static struct uroced u;
	static struct options o;
	char err[UROCE_ERR_BYTES];
	int status, rc, kept;

	/* The clock of files. */
	clock_gettime(CLOCK_REALTIME_COARSE, &u.began);
	if (options_parse(argc, argv, &o, &status) != 0)
		return status;
	if (configure(&u, &o) != 0)
		return EXIT_USAGE;
	if (o.check) {
		for (unsigned int i = 0; i < o.nb_stacks; i++)
			printf("uroced: the configuration is good: socket %s, %u port%s\n", u.confs[i].socket,
			       u.confs[i].nb_ports, u.confs[i].nb_ports == 1 ? "" : "s");
		return EXIT_SUCCESS;
	}
	kept = o.keep_programs ? kept_socket() : -1;
	raise_limits();
	block_signals();
	status = EXIT_FAILURE;
	u.survivor.sock = -1;
	if (!o.take_over && find_keeper(&u, &o) != 0)
		return status;
	if (privileges_prepare(&u.privileges, u.confs, o.nb_stacks) != 0)
		return EXIT_USAGE;
	if (o.nice != 0 && (rc = nice_process(o.nice)) != 0) {
		complain("--nice %d: %s%s", o.nice, strerror(rc), o.nice < 0 ? "; less than 0 needs CAP_SYS_NICE" : "");
		privileges_end(&u.privileges);
		return status;
	}
	atomic_init(&u.asked, -1);
	rc = start(&u, &o, kept);
	if (rc == 0) {
		rc = log_begin(STDERR_FILENO);
		if (rc != 0)
			complain("warning: the log has no thread (%s): what reads it can make the daemon wait", strerror(rc));
		do
			rc = uroce_control_run(u.stacks[0], err);
		while (rc == 0 && atomic_load(&u.asked) >= 0 && !give_programs(&u));
		if (rc == 0)
			status = EXIT_SUCCESS;
		else
			complain("%s", err);
		if (rc == 0 && o.keep_programs)
			keep_programs(&u);
		survivor_end(&u.survivor);
	} else if (rc == START_NOT_NEEDED) {
		status = EXIT_SUCCESS;
	}
	take_down(&u);
	log_end();
	privileges_end(&u.privileges);
	return status;
}
