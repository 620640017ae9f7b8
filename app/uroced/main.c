/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced: the command line, EAL, and a stack (lib/uroce) whose control runs on the main lcore and whose engines run on
 * the others.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pdump.h>

#include "notify.h"
#include "options.h"
#include "uroce/stack.h"

/** What main() has started and has to stop. */
struct uroced {
	struct uroced_config conf;
	bool eal;
	unsigned int lcores[UROCE_MAX_ENGINES];
	unsigned int nb_engines, nb_launched;
	struct uroce *stack;
};

static int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** Print a message. @return -1, for the caller to return. */
static int
complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("uroced: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return -1;
}

/** Raise the limit of file descriptors: every session needs some. */
static void
raise_limits(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
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

static int
start_eal(struct uroced *u, const struct options *o)
{
	if (rte_eal_init(o->eal_argc, o->eal_argv) < 0)
		return complain("DPDK's EAL doesn't start: %s. The lines above say more. If memory is missing: reserve "
				"hugepages "
				"(echo 512 > /proc/sys/vm/nr_hugepages) or give EAL --no-huge -m 512. If another DPDK "
				"program runs: "
				"give EAL --file-prefix NAME",
				rte_strerror(rte_errno));
	u->eal = true;
	/* For dpdk-dumpcap, which is a secondary process: it can map our memory only if that is hugepages in files. */
	if (rte_eal_has_hugepages() && rte_eal_process_type() == RTE_PROC_PRIMARY && rte_pdump_init() != 0)
		fprintf(stderr, "uroced: warning: dpdk-dumpcap can't be used: %s\n", rte_strerror(rte_errno));
	return 0;
}

static int
find_lcores(struct uroced *u)
{
	unsigned int lcore;

	RTE_LCORE_FOREACH_WORKER(lcore)
	{
		if (u->nb_engines == UROCE_MAX_ENGINES)
			return complain("more than %d lcores for engines; give EAL fewer by -l", UROCE_MAX_ENGINES);
		u->lcores[u->nb_engines++] = lcore;
	}
	if (u->nb_engines == 0)
		return complain("no lcore for an engine; give EAL two or more, for example -l 0-1, or on a machine "
				"with one core "
				"--lcores '0@0,1@0'");
	return 0;
}

/** Run on a worker lcore the engine that find_lcores() assigned to it. */
static int
run_engine(void *arg)
{
	struct uroced *u = arg;
	unsigned int i;

	for (i = 0; u->lcores[i] != rte_lcore_id(); i++)
		;
	return uroce_engine_run(u->stack, i);
}

static int
launch_engines(struct uroced *u)
{
	int rc;

	for (; u->nb_launched < u->nb_engines; u->nb_launched++) {
		rc = rte_eal_remote_launch(run_engine, u, u->lcores[u->nb_launched]);
		if (rc != 0)
			return complain("engine %u doesn't start on lcore %u: %s", u->nb_launched,
					u->lcores[u->nb_launched], strerror(-rc));
	}
	return 0;
}

static int
bring_up(struct uroced *u, const struct options *o)
{
	struct uroce_params p = {
		.config_file = o->config,
		.sets = o->sets,
		.nb_sets = o->nb_sets,
		.lcores = u->lcores,
		.serve = true,
		.signals = true,
	};
	char err[UROCE_ERR_BYTES];
	int fd;

	/* Do this before EAL, which takes long to start: most mistakes of users show up here. */
	if (control_socket_bind(u->conf.socket, u->conf.socket_mode, u->conf.socket_group, &fd, err) != 0)
		return complain("%s", err);
	if (start_eal(u, o) != 0 || find_lcores(u) != 0) {
		control_socket_remove(u->conf.socket);
		return -1;
	}
	p.nb_engines = u->nb_engines;
	u->stack = stack_create(&p, &u->conf, fd, err);
	if (u->stack == NULL)
		return complain("%s", err);
	if (launch_engines(u) != 0)
		return -1;
	if (stack_publish(u->stack, err) != 0)
		return complain("%s", err);
	printf("uroced: ready, socket %s, %u port%s, %u engine%s\n", u->conf.socket, u->conf.nb_ports,
	       u->conf.nb_ports == 1 ? "" : "s", u->nb_engines, u->nb_engines == 1 ? "" : "s");
	fflush(stdout);
	notify_ready();
	return 0;
}

/**
 * @return true if rte_eal_cleanup() may be called. In DPDK 22.11 net_memif's server never removes its listener from
 * EAL's interrupt thread, which then sometimes reads memory that rte_eal_cleanup() has unmapped. The end of the process
 * cleans up as well.
 */
static bool
cleanup_is_safe(const struct uroced *u)
{
	for (unsigned int i = 0; i < u->conf.nb_ports; i++)
		if (strncmp(u->conf.ports[i].net.ethdev, "net_memif", strlen("net_memif")) == 0)
			return false;
	return true;
}

/** Undo bring_up(), also if it failed half-way. */
static void
take_down(struct uroced *u)
{
	unsigned int i;

	if (u->stack != NULL) {
		/* Do this while engines run: they send the last packets of connections. */
		uroce_shutdown(u->stack);
		for (i = 0; i < u->nb_launched; i++)
			uroce_engine_stop(u->stack, i);
		rte_eal_mp_wait_lcore();
		uroce_destroy(u->stack);
	}
	if (u->eal && cleanup_is_safe(u))
		rte_eal_cleanup();
}

/**
 * --vdev net_impairN,port=ETHDEV,... sets `impair` of the port with that ethdev. Like everything on the command line it
 * overrides the file, so it is converted to a --set, which stays in force when the file is read again.
 */
static int
take_vdevs(struct uroced *u, struct options *o, const struct impair_vdevs *v)
{
	char names[CONFIG_ERR_BYTES] = "", *set;
	unsigned int i, k;

	for (i = 0; i < v->n; i++) {
		const struct impair_vdev *d = &v->vdev[i];
		const char *port = NULL;

		for (k = 0; k < u->conf.nb_ports; k++) {
			const struct config_port *p = &u->conf.ports[k];

			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", k > 0 ? ", " : "",
				 p->net.ethdev);
			if (strcmp(p->net.ethdev, d->port) == 0)
				port = p->net.name;
		}
		if (port == NULL)
			return complain("--vdev %s: port=%s: no port of the configuration has this ethdev; there are: %s",
					d->name, d->port, names);
		if (o->nb_sets == OPTIONS_MAX_SETS ||
		    asprintf(&set, "port %s.impair=%s", port, d->settings[0] != '\0' ? d->settings : "seed=1") < 0)
			return complain("--vdev %s: too many settings, or no memory", d->name);
		o->sets[o->nb_sets++] = set; /* lives as long as the process */
	}
	return 0;
}

/** Read command line and configuration. @return 0, or -1 with a message printed. */
static int
configure(struct uroced *u, struct options *o)
{
	char err[CONFIG_ERR_BYTES];
	struct impair_vdevs vdevs;

	if (impair_vdevs_take(&o->eal_argc, o->eal_argv, &vdevs, err, sizeof(err)) != 0 ||
	    config_load(o->config, o->sets, o->nb_sets, &u->conf, err) != 0)
		return complain("%s", err);
	if (vdevs.n == 0)
		return 0;
	if (take_vdevs(u, o, &vdevs) != 0)
		return -1;
	return config_load(o->config, o->sets, o->nb_sets, &u->conf, err) != 0 ? complain("%s", err) : 0;
}

int
main(int argc, char **argv)
{
	static struct uroced u;
	static struct options o;
	char err[UROCE_ERR_BYTES];
	int status;

	if (options_parse(argc, argv, &o, &status) != 0)
		return status;
	if (configure(&u, &o) != 0)
		return EXIT_USAGE;
	if (o.check) {
		printf("uroced: the configuration is good: socket %s, %u port%s\n", u.conf.socket, u.conf.nb_ports,
		       u.conf.nb_ports == 1 ? "" : "s");
		return EXIT_SUCCESS;
	}
	raise_limits();
	block_signals();
	status = EXIT_FAILURE;
	if (bring_up(&u, &o) == 0) {
		if (uroce_control_run(u.stack, err) == 0)
			status = EXIT_SUCCESS;
		else
			complain("%s", err);
	}
	take_down(&u);
	return status;
}
