/* SPDX-License-Identifier: BSD-3-Clause */
/* How the daemon starts: by itself, with the programs of the one before, or beside it. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <rte_lcore.h>

#include "common/notify.h"
#include "keep.h"
#include "nice.h"
#include "standby.h"
#include "uroced.h"

/** A stack's control thread and engines are well. */
struct life {
	struct uroced *daemon;
	unsigned int stack;
};

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
		.checkpoint = survivor_host(&u->survivor, i),
		.crashed_ns = u->crashed_ns,
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

	survivor_raise(&u->survivor);
	/*
	 * With programs already there, engines run only when rights have been given up: that waits for all threads, and engines may have a copier
	 * wait for a program's page for ever.
	 */
	if (!u->resumes && launch_engines(u) != 0)
		return -1;
	for (unsigned int i = 0; i < u->nb_stacks; i++)
		if (stack_publish(u->stacks[i], err) != 0)
			return complain("%s", err);
	if (u->hurries)
		nice_calm_session();
	if (privileges_drop(&u->privileges, u->stacks, u->nb_stacks) != 0)
		return -1;
	if (u->resumes && launch_engines(u) != 0)
		return -1;
	if (u->hurries)
		nice_calm();
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

/** All that is possible while another daemon has the ports: programs notice nothing of the time that this takes. */
static int
prepare_beside(struct uroced *u, struct options *o, const char *option, struct plan *plans, struct vdevs *vdevs)
{
	u->resumes = true;
	if (take_vdevs(u, o, option, vdevs) != 0 || start_cores(u, o) != 0)
		return -1;
	return open_beside(vdevs) == 0 ? prepare_stacks(u, o, plans) : -1;
}

/** Programs wait from now on. */
static void
hurry(struct uroced *u)
{
	u->hurries = true;
	nice_hurry();
}

/** bring_up() with the programs of the daemon that runs. */
static int
take_over(struct uroced *u, struct options *o)
{
	static struct plan plans[OPTIONS_MAX_STACKS];
	struct stream_in in = { 0 };
	struct vdevs vdevs;
	int rc = prepare_beside(u, o, "--take-over", plans, &vdevs);

	if (rc == 0) {
		if (u->confs[0].survive_crash > 0)
			survivor_wait(&u->survivor, u->confs[0].socket, u->confs[0].survive_crash, o->nb_stacks);
		rc = take_programs(u, o, &vdevs, &in);
	}
	/* The keeper serves one daemon at a time. */
	if (rc == 0) {
		hurry(u);
		(void)find_keeper(u, o);
	}
	for (unsigned int i = 0; i < u->nb_stacks && rc == 0; i++)
		plans[i].host.checkpoint = survivor_host(&u->survivor, i);
	if (rc == 0)
		rc = probe_vdevs(&vdevs);
	if (rc == 0)
		rc = open_stacks(u, plans, &in);
	talk_free(&in);
	return rc == 0 ? publish(u) : -1;
}

static int
bring_up(struct uroced *u, const struct options *o)
{
	int fds[OPTIONS_MAX_STACKS], rc = -1;
	unsigned int bound = bind_sockets(u, o, fds);

	/* Of a daemon that was killed; those of this one are there already if EAL runs. */
	if (!u->eal)
		remove_memif_sockets(o);
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

/** bring_up() with the programs in @p in, which is freed. */
static int
resume(struct uroced *u, const struct options *o, struct stream_in *in)
{
	static struct plan plans[OPTIONS_MAX_STACKS];
	int rc;

	u->resumes = true;
	rc = prepare_stacks(u, o, plans);
	if (rc == 0)
		rc = open_stacks(u, plans, in);
	talk_free(in);
	return rc == 0 ? publish(u) : -1;
}

/** bring_up() with the programs that the daemon before has left in @p fd; without them if they can't go on. */
static int
resume_kept(struct uroced *u, const struct options *o, int fd)
{
	struct stream_in in = { 0 };

	remove_memif_sockets(o);
	if (start_cores(u, o) != 0)
		return -1;
	if (kept_programs(u, o, fd, &in) != 0)
		return bring_up(u, o);
	return resume(u, o, &in);
}

/** Read what the daemon that has crashed had. @return 0, or -1 with a message printed: its programs have ended. */
static int
crashed_programs(struct uroced *u, const struct options *o, struct stream_in *in)
{
	char text[TALK_TEXT_BYTES];
	int rc = survivor_read(&u->survivor, in, text);

	if (rc == 0 && check_programs(u, o, in, text) != 0) {
		survivor_take_back(&u->survivor, in);
		rc = -1;
	}
	if (rc == 0) {
		u->crashed_ns = u->survivor.state.ended_ns;
		return 0;
	}
	survivor_give_up(&u->survivor);
	talk_free(in);
	return complain("the programs of the daemon that has crashed can't go on: %s", text);
}

/** bring_up() with the programs of a daemon that has crashed; without them if they can't go on. */
static int
resume_crashed(struct uroced *u, const struct options *o)
{
	struct stream_in in = { 0 };

	remove_memif_sockets(o);
	if (start_cores(u, o) != 0)
		return -1;
	if (crashed_programs(u, o, &in) != 0)
		return bring_up(u, o);
	return resume(u, o, &in);
}

/** Changes of the files since this process read them are applied as those that SIGHUP tells of. */
static void
notice_changes(const struct uroced *u, const struct options *o)
{
	struct stat st;

	for (unsigned int i = 0; i < o->nb_stacks; i++)
		if (o->stacks[i].config != NULL && stat(o->stacks[i].config, &st) == 0 &&
		    (st.st_ctim.tv_sec > u->began.tv_sec || (st.st_ctim.tv_sec == u->began.tv_sec && st.st_ctim.tv_nsec > u->began.tv_nsec))) {
			raise(SIGHUP);
			return;
		}
}

/** Serve what the daemon has left that has crashed. @param process  A pidfd of it, or -1. */
static int
replace_crashed(struct uroced *u, const struct options *o, struct plan *plans, struct vdevs *vdevs, int process)
{
	struct stream_in in = { 0 };
	bool resumes;
	int rc = 0;

	hurry(u);
	resumes = survivor_has_programs(&u->survivor) && crashed_programs(u, o, &in) == 0;
	if (!vdevs_wait(vdevs, u, process, true))
		rc = complain("--standby: the daemon has lost the keeper, but doesn't end: its ports can't be opened");
	u->resumes = resumes;
	for (unsigned int i = 0; i < u->nb_stacks; i++) {
		plans[i].host.crashed_ns = u->crashed_ns;
		plans[i].host.binds = !resumes;
	}
	if (rc == 0)
		rc = probe_vdevs(vdevs);
	if (rc == 0)
		rc = open_stacks(u, plans, resumes ? &in : NULL);
	talk_free(&in);
	/* While this user may look at them. */
	if (rc == 0)
		notice_changes(u, o);
	return rc == 0 ? publish(u) : -1;
}

/** bring_up(), as far as that is possible beside the daemon that is served; and the rest when that has crashed. */
static int
stand_by(struct uroced *u, struct options *o)
{
	static struct plan plans[OPTIONS_MAX_STACKS];
	struct vdevs vdevs;
	int process;

	if (prepare_beside(u, o, "--standby", plans, &vdevs) != 0)
		return -1;
	printf("uroced: standby for the daemon at %s\n", u->confs[0].socket);
	fflush(stdout);
	notify_ready();
	switch (standby_wait(&u->survivor, &process)) {
	case STANDBY_SERVES:
		printf("uroced: the daemon has crashed: its standby takes over\n");
		fflush(stdout);
		return replace_crashed(u, o, plans, &vdevs, process);
	case STANDBY_ENDS:
		fflush(stdout);
		/* Otherwise the unit counts as active until this process has ended, and `systemctl start` would start no other standby. */
		notify_stopping();
		/* To give all its memory back takes time, in which another daemon may be about to take over. */
		nice_last();
		return START_NOT_NEEDED;
	case STANDBY_FAILED:
		break;
	}
	return -1;
}

/* ---- All of them ---- */
int
find_keeper(struct uroced *u, const struct options *o)
{
	const struct uroced_config *c = &u->confs[0];
	bool serves;

	if (o->standby) {
		if (standby_greet(&u->survivor, c->socket, c->survive_crash, o->nb_stacks, &serves) != 0)
			return -1;
		u->waits = !serves;
	} else if (c->survive_crash > 0) {
		(void)survivor_open(&u->survivor, c->socket, c->survive_crash, o->nb_stacks);
	}
	return 0;
}

int
start(struct uroced *u, struct options *o, int kept)
{
	if (o->take_over)
		return take_over(u, o);
	if (u->waits) {
		kept_drop(kept);
		return stand_by(u, o);
	}
	if (kept >= 0)
		return resume_kept(u, o, kept);
	return survivor_has_programs(&u->survivor) ? resume_crashed(u, o) : bring_up(u, o);
}
