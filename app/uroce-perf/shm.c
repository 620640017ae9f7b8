/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workload in a process of its own: it uses rings and memory, as a verbs program does, and runs both ends. The
 * engine has another core. The QPs are connected to each other through the loopback, without the network.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "lane.h"

enum shm_state { SHM_WAIT, SHM_GO, SHM_ABORT };

/** Shared by both processes; in the arena. */
struct shm_control {
	_Atomic uint32_t state;
	_Atomic bool stop;
	pid_t program;
	int kick_fd;
	cpu_set_t core;
	struct ring_db db;
	struct perf_end *ends[PERF_ENDS_PER_ENGINE]; /**< initiator, target */
	struct perf_lane lane;
};

static void
watch(void *arg)
{
	struct shm_control *c = arg;

	if (ends_done(c->ends, PERF_ENDS_PER_ENGINE))
		atomic_store(&c->stop, true);
}

/** The main function of the program's process. */
static void
program_main(struct shm_control *c)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (atomic_load(&c->state) == SHM_WAIT)
		usleep(1000);
	if (atomic_load(&c->state) == SHM_ABORT)
		_exit(EXIT_FAILURE);
	sched_setaffinity(0, sizeof(c->core), &c->core);
	c->lane = (struct perf_lane){
		.ends = { c->ends[0], c->ends[1] },
		.nb_ends = PERF_ENDS_PER_ENGINE,
		.stop = &c->stop,
		.watch = watch,
		.watch_arg = c,
	};
	lane_run(&c->lane);
	_exit(EXIT_SUCCESS);
}

struct shm_control *
shm_prepare(const struct perf_opts *o)
{
	struct shm_control *c = arena_alloc(sizeof(*c), 64);

	c->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (c->kick_fd >= 0)
		c->program = fork();
	if (c->kick_fd < 0 || c->program < 0) {
		perror("uroce-perf: no process for the program");
		return NULL;
	}
	if (c->program == 0)
		program_main(c);
	return c;
}

struct slot_call {
	struct engine_session *session;
	struct perf_end *e;
	bool set; /**< false: clear them */
};

static int
call_slots(struct engine *engine, void *arg, uint64_t now_ns)
{
	struct slot_call *s = arg;

	for (uint32_t i = 0; i < s->e->nb_qps; i++)
		engine_session_set_qp(s->session, s->e->qps[i].db_slot, s->set ? s->e->qps[i].qp : NULL);
	return 0;
}

static bool
ends_create(struct shm_control *c, struct perf_host *h, struct engine_session *session)
{
	const struct perf_opts *o = h->o;

	for (unsigned int i = 0; i < PERF_ENDS_PER_ENGINE; i++) {
		struct perf_end *e = host_add_end(h, 0, i == 0, rte_get_tsc_hz());
		struct slot_call s = { .session = session, .e = e, .set = true };

		if (e == NULL)
			return false;
		c->ends[i] = e;
		e->doorbell = end_doorbell_shm;
		e->db = &c->db;
		e->kick_fd = c->kick_fd;
		for (uint32_t q = 0; q < e->nb_qps; q++)
			e->qps[q].db_slot = i * o->qps + q;
		engine_call(h->engines[0], call_slots, &s);
	}
	return true;
}

static bool
ends_connect(struct perf_host *h)
{
	struct perf_peer *peers = calloc(h->o->qps, sizeof(*peers));
	struct perf_hello hello;
	bool ok = peers != NULL;

	host_hello(h, &hello);
	for (unsigned int i = 0; ok && i < PERF_ENDS_PER_ENGINE; i++) {
		host_peers(h, !i, peers);
		ok = host_connect(h, i, &hello, peers, true);
	}
	free(peers);
	return ok;
}

/** Wait until the program ends. @return true if it ended well. */
static bool
serve(struct shm_control *c)
{
	int status;

	while (waitpid(c->program, &status, 0) < 0 && errno == EINTR)
		;
	c->program = 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

static bool
measure(struct shm_control *c, struct perf_host *h)
{
	_Atomic bool stop = false;
	struct perf_lane lane = { .engines = { h->engines[0] }, .nb_engines = 1, .stop = &stop };
	struct perf_result *r = c->ends[0]->result;
	unsigned int lcore = rte_get_next_lcore((unsigned int)-1, 1, 0);
	struct cores cores;
	bool ok;

	CPU_ZERO(&c->core);
	CPU_SET(rte_lcore_to_cpu_id((int)rte_get_main_lcore()), &c->core);
	rte_eal_remote_launch(lane_run, &lane, lcore);
	atomic_store(&c->state, SHM_GO);
	ok = serve(c);
	atomic_store(&stop, true);
	rte_eal_mp_wait_lcore();
	if (!ok)
		fprintf(stderr, "uroce-perf: the program's process died\n");
	ok = ok && check_end(c->ends[0]) && check_end(c->ends[1]);
	r->busy_cycles[0] = c->lane.busy_cycles;
	r->engine_busy_cycles = lane.busy_cycles;
	if (ok && !end_verify(c->ends[op_is_inbound(h->o->op) ? 0 : 1], r->all_ops)) {
		fprintf(stderr, "uroce-perf: the data that arrived isn't what was sent\n");
		ok = false;
	}
	/* The program has the main lcore's CPU. */
	cores = lanes_cores(2);
	cores.late_turns = lane.late_turns;
	if (ok)
		report(h->o, &r, 1, rte_get_tsc_hz(), &cores);
	else
		host_print_counters(h, "host");
	return ok;
}

/** Create a port that is connected to nothing: the QPs loop back, so it never sends a packet. */
static bool
port_create(char *name, size_t bytes)
{
	char args[96];

	snprintf(name, bytes, "net_memif0");
	snprintf(args, sizeof(args), "role=server,id=0,bsize=4352,socket=uroce-perf-%d,socket-abstract=yes",
		 (int)getpid());
	if (rte_eal_hotplug_add("vdev", name, args) == 0)
		return true;
	fprintf(stderr, "uroce-perf: no memif port; is DPDK's memif driver installed?\n");
	return false;
}

int
run_shm(const struct perf_opts *o, struct shm_control *c)
{
	struct perf_host *h = calloc(1, sizeof(*h));
	struct engine_session *session = NULL;
	char port[32];
	bool ok = h != NULL;

	if (ok && rte_lcore_count() < 2) {
		fprintf(stderr, "uroce-perf: --role shm needs 2 lcores, EAL has %u: give -l 0,1\n", rte_lcore_count());
		ok = false;
	}
	ok = ok && port_create(port, sizeof(port)) &&
	     host_open(h, o, 0, port, o->ipv6 ? "fd00:18::1/64" : "198.18.0.1/24") &&
	     host_impairs_found();
	if (ok) {
		session = engine_session_add(h->engines[0], &c->db, PERF_ENDS_PER_ENGINE * o->qps, &c->kick_fd, false);
		ok = session != NULL && ends_create(c, h, session) && ends_connect(h) && measure(c, h);
	}
	atomic_store(&c->state, SHM_ABORT);
	if (c->program > 0)
		waitpid(c->program, NULL, 0);
	if (session != NULL) {
		for (unsigned int i = 0; i < h->nb_ends; i++) {
			struct slot_call s = { .session = session, .e = h->ends[i] };

			engine_call(h->engines[0], call_slots, &s);
		}
		engine_session_remove(h->engines[0], session);
	}
	if (h != NULL)
		host_close(h);
	free(h);
	close(c->kick_fd);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
