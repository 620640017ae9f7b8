/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced: the command line, EAL, and a stack (lib/uroce) whose control runs on the main lcore and whose engines run on
 * the others.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include "keep.h"
#include "nice.h"
#include "notify.h"
#include "uroced.h"

/** A stack's control thread and engines are well. */
struct life {
	struct uroced *daemon;
	unsigned int stack;
};

int
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

/**
 * Raise the limit of file descriptors: every session needs some. For an ordinary user it also limits the descriptors under way in sockets, of all replies
 * that programs haven't read.
 */
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

/** With --one-engine the worker lcores, each of which must be on a CPU of its own, take turns at running one engine. */
static int
share_engine(struct uroced *u)
{
	if (u->nb_engines > ENGINE_CPUS_MAX)
		return complain("--one-engine: at most %d lcores can share an engine, EAL has %u", ENGINE_CPUS_MAX, u->nb_engines);
	for (; u->nb_cpus < u->nb_engines; u->nb_cpus++) {
		rte_cpuset_t set = rte_lcore_cpuset(u->lcores[u->nb_cpus]);

		if (CPU_COUNT(&set) != 1)
			return complain("--one-engine: lcore %u is on %d CPUs, must be on one: give EAL --lcores '0@(0,1),1@0,2@1' for "
					"example", u->lcores[u->nb_cpus], CPU_COUNT(&set));
		while (!CPU_ISSET((size_t)u->cpus[u->nb_cpus], &set))
			u->cpus[u->nb_cpus]++;
	}
	u->nb_engines = 1;
	return 0;
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

static void
on_alive(void *arg)
{
	const struct life *l = arg;
	uint32_t all = (1u << l->daemon->nb_stacks) - 1;

	/* The last one of them tells it. */
	if ((atomic_fetch_or(&l->daemon->alive, 1u << l->stack) | 1u << l->stack) != all)
		return;
	atomic_store(&l->daemon->alive, 0);
	notify_alive();
}

static_assert((int)BROKER_LINES_MAX >= (int)OPTIONS_MAX_STACKS, "each stack asks the broker by a socket of its own");

/** What a stack is made with. */
struct plan {
	struct uroce_params params;
	struct stack_host host;
	struct shared_ops opener;
};

/** Fill in @p p for stack @p i. @return 0, or -1 with a message printed. */
static int
plan_stack(struct uroced *u, const struct options *o, unsigned int i, struct plan *p)
{
	static struct life lives[OPTIONS_MAX_STACKS];
	int rc = u->privileges.broker != NULL ? broker_ops(u->privileges.broker, &p->opener) : 0;

	if (rc != 0)
		return complain("the broker can't be asked: %s", strerror(rc));
	lives[i] = (struct life){ u, i };
	p->params = (struct uroce_params){
		.config_file = o->stacks[i].config,
		.sets = o->stacks[i].sets,
		.nb_sets = o->stacks[i].nb_sets,
		.lcores = u->lcores,
		.nb_engines = u->nb_engines,
		.serve = true,
		.signals = i == 0,
	};
	p->host = (struct stack_host){
		.cpus = u->cpus,
		.nb_cpus = u->nb_cpus,
		.opener = u->privileges.broker != NULL ? &p->opener : NULL,
		.alive = notify_alive_ms() > 0 ? on_alive : NULL,
		.alive_arg = &lives[i],
		.alive_ms = notify_alive_ms(),
		.hand_over = give_asked,
		.hand_over_arg = u,
		.resumes = u->resumes,
	};
	return 0;
}

/** Create stack @p i, whose socket is @p fd. */
static int
add_stack(struct uroced *u, const struct options *o, unsigned int i, int fd)
{
	char err[UROCE_ERR_BYTES];
	struct plan p;

	if (plan_stack(u, o, i, &p) != 0)
		return -1;
	u->stacks[i] = stack_create_on(&p.params, &u->confs[i], fd, &p.host, err);
	if (u->stacks[i] == NULL)
		return complain("%s", err);
	u->nb_stacks++;
	return 0;
}

/** Before EAL, which takes long to start: most mistakes of the user show here. @return how many sockets were bound. */
static unsigned int
bind_sockets(struct uroced *u, const struct options *o, int *fds)
{
	char err[UROCE_ERR_BYTES];

	for (unsigned int i = 0; i < o->nb_stacks; i++) {
		const struct uroced_config *c = &u->confs[i];

		if (control_socket_bind(c->socket, c->socket_mode, c->socket_group, &fds[i], err) != 0) {
			complain("%s", err);
			return i;
		}
	}
	return o->nb_stacks;
}

/** Run the engines, give the sockets their names, give up what only starting needs, and serve: all but the first, which the caller's thread will drive. */
static int
publish(struct uroced *u)
{
	char err[UROCE_ERR_BYTES];

	/*
	 * With programs already there, engines run only when rights have been given up: that waits for all threads, and engines may have a copier
	 * wait for a program's page for ever.
	 */
	if (!u->resumes && launch_engines(u) != 0)
		return -1;
	for (unsigned int i = 0; i < u->nb_stacks; i++)
		if (stack_publish(u->stacks[i], err) != 0)
			return complain("%s", err);
	if (privileges_drop(&u->privileges, u->stacks, u->nb_stacks) != 0)
		return -1;
	if (u->resumes && launch_engines(u) != 0)
		return -1;
	for (unsigned int i = 1; i < u->nb_stacks; i++)
		if (uroce_control_start(u->stacks[i], err) != 0)
			return complain("%s", err);
	for (unsigned int i = 0; i < u->nb_stacks; i++)
		printf("uroced: ready, socket %s, %u port%s, %u engine%s\n", u->confs[i].socket, u->confs[i].nb_ports,
		       u->confs[i].nb_ports == 1 ? "" : "s", u->nb_engines, u->nb_engines == 1 ? "" : "s");
	fflush(stdout);
	notify_ready();
	return 0;
}

/** @return 0 if EAL runs and has cores for the engines. */
static int
start_cores(struct uroced *u, const struct options *o)
{
	if (u->eal)
		return 0;
	return eal_start(u, o) == 0 && find_lcores(u) == 0 && (!o->one_engine || share_engine(u) == 0) ? 0 : -1;
}

/** As far as the daemon that runs isn't in the way: programs notice nothing of the time that this takes. */
static int
prepare_stacks(struct uroced *u, const struct options *o, struct plan *plans)
{
	char err[UROCE_ERR_BYTES];

	for (unsigned int i = 0; i < o->nb_stacks; i++) {
		if (plan_stack(u, o, i, &plans[i]) != 0)
			return -1;
		u->stacks[i] = stack_prepare(&plans[i].params, &u->confs[i], -1, &plans[i].host, err);
		if (u->stacks[i] == NULL)
			return complain("%s", err);
		u->nb_stacks++;
	}
	return 0;
}

static int
open_stacks(struct uroced *u, struct plan *plans, struct stream_in *in)
{
	char err[UROCE_ERR_BYTES];

	for (unsigned int i = 0; i < u->nb_stacks; i++) {
		plans[i].host.resume = in;
		if (stack_open(u->stacks[i], &plans[i].params, &plans[i].host, err) != 0)
			return complain("%s", err);
	}
	return 0;
}

/** bring_up() with the programs of the daemon that runs. */
static int
take_over(struct uroced *u, struct options *o)
{
	static struct plan plans[OPTIONS_MAX_STACKS];
	struct stream_in in = { 0 };
	struct vdevs vdevs;
	int rc = take_vdevs(u, o, &vdevs);

	u->resumes = true;
	if (rc == 0)
		rc = start_cores(u, o);
	if (rc == 0)
		rc = prepare_stacks(u, o, plans);
	if (rc == 0)
		rc = take_programs(u, o, &in);
	if (rc == 0)
		rc = probe_vdevs(&vdevs);
	if (rc == 0)
		rc = open_stacks(u, plans, &in);
	handover_free(&in);
	return rc == 0 ? publish(u) : -1;
}

static int
bring_up(struct uroced *u, const struct options *o)
{
	int fds[OPTIONS_MAX_STACKS], rc = -1;
	unsigned int bound = bind_sockets(u, o, fds);

	if (bound == o->nb_stacks && start_cores(u, o) == 0) {
		for (rc = 0; u->nb_stacks < o->nb_stacks && rc == 0;)
			rc = add_stack(u, o, u->nb_stacks, fds[u->nb_stacks]);
		/* The socket of one that failed is gone already. */
		for (unsigned int i = u->nb_stacks + 1; i < bound && rc != 0; i++)
			control_socket_remove(u->confs[i].socket);
	} else {
		while (bound-- > 0)
			control_socket_remove(u->confs[bound].socket);
	}
	return rc == 0 ? publish(u) : -1;
}

/** bring_up() with the programs that the daemon before has left in @p fd; without them if they can't go on. */
static int
resume_kept(struct uroced *u, const struct options *o, int fd)
{
	static struct plan plans[OPTIONS_MAX_STACKS];
	struct stream_in in = { 0 };
	int rc;

	remove_memif_sockets(o);
	if (start_cores(u, o) != 0)
		return -1;
	if (kept_programs(u, o, fd, &in) != 0)
		return bring_up(u, o);
	u->resumes = true;
	rc = prepare_stacks(u, o, plans);
	if (rc == 0)
		rc = open_stacks(u, plans, &in);
	handover_free(&in);
	return rc == 0 ? publish(u) : -1;
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
	if (privileges_prepare(&u.privileges, u.confs, o.nb_stacks) != 0)
		return EXIT_USAGE;
	if (o.nice != 0 && (rc = nice_process(o.nice)) != 0) {
		complain("--nice %d: %s%s", o.nice, strerror(rc), o.nice < 0 ? "; less than 0 needs CAP_SYS_NICE" : "");
		privileges_end(&u.privileges);
		return status;
	}
	atomic_init(&u.asked, -1);
	rc = o.take_over ? take_over(&u, &o) : kept >= 0 ? resume_kept(&u, &o, kept) : bring_up(&u, &o);
	if (rc == 0) {
		do
			rc = uroce_control_run(u.stacks[0], err);
		while (rc == 0 && atomic_load(&u.asked) >= 0 && !give_programs(&u));
		if (rc == 0)
			status = EXIT_SUCCESS;
		else
			complain("%s", err);
		if (rc == 0 && o.keep_programs)
			keep_programs(&u);
	}
	take_down(&u);
	privileges_end(&u.privileges);
	return status;
}
