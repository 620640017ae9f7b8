/* SPDX-License-Identifier: BSD-3-Clause */
#include "second.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rte_common.h>
#include <rte_eth_ring.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_ring.h>

#include "base/record.h"
#include "daemon.h"

enum { WIRE = 64 };

static struct rte_ring *wire;
struct uroce *second;
uint64_t second_crashed_ns;

struct uroce *
second_make(struct stream_in *in)
{
	static unsigned int made;
	char socket_set[80], ethdev_set[64], name[16], err[UROCE_ERR_BYTES];
	const char *const sets[] = { ethdev_set, "port uroce0.addresses=198.18.0.1/24 fd00:18::1/64",
				     "port uroce0.pkeys=0xffff 0x8001", "daemon.mbufs=2047", "daemon.telemetry=off", socket_set };
	const struct uroce_params p = { .sets = sets, .nb_sets = sizeof(sets) / sizeof(sets[0]), .nb_engines = daemon_engines,
					.serve = true };
	struct rte_ring *queues[2];
	const struct stack_host host = { .resumes = true, .resume = in, .crashed_ns = second_crashed_ns };
	struct uroced_config *conf = calloc(1, sizeof(*conf));
	struct uroce *u;

	snprintf(socket_set, sizeof(socket_set), "daemon.socket=%s", daemon_socket());
	if (wire == NULL)
		wire = rte_ring_create("wire2", WIRE, SOCKET_ID_ANY, 0);
	/* A name of its own for each, since a daemon frees the ethdev, but not the device. */
	snprintf(name, sizeof(name), "second%u", ++made);
	snprintf(ethdev_set, sizeof(ethdev_set), "port uroce0.ethdev=net_ring_%s", name);
	queues[0] = queues[1] = wire;
	assert_true(rte_eth_from_rings(name, queues, daemon_engines, queues, daemon_engines, 0) >= 0);
	if (config_load(NULL, sets, p.nb_sets, conf, err) != 0)
		fail_msg("%s", err);
	u = stack_prepare(&p, conf, -1, &host, err);
	if (u == NULL || stack_open(u, &p, &host, err) != 0)
		fail_msg("%s", err);
	free(conf);
	return u;
}

struct stream_in
second_reads(const struct stream_out *o, uint8_t *bytes)
{
	struct stream_in in = { .bytes = bytes, .n = o->n, .nb_fds = o->nb_fds };

	memcpy(bytes, o->bytes, o->n);
	in.fds = calloc(o->nb_fds + 1, sizeof(*in.fds));
	for (uint32_t i = 0; i < o->nb_fds; i++)
		in.fds[i] = fcntl(o->fds[i], F_DUPFD_CLOEXEC, 0);
	return in;
}

void
second_save(struct uroce *from, struct stream_out *o, uint32_t sessions, uint32_t qps)
{
	const struct record_head tail = { 0 };
	struct handover_counts n = { 0 };

	*o = (struct stream_out){ 0 };
	assert_int_equal(control_end_unsaved(from->control), 0);
	assert_int_equal(control_save(from->control, o, &n), 0);
	assert_int_equal(n.sessions, sessions);
	assert_int_equal(n.qps, qps);
	stream_put(o, RECORD_END, &tail, sizeof(tail), NULL, 0);
	assert_false(o->failed);
}

void
second_read(struct second_stream *s, uint32_t sessions, uint32_t qps)
{
	second_save(daemon_hold(), &s->o, sessions, qps);
	s->bytes = aligned_alloc(64, RTE_ALIGN_CEIL(s->o.n, (size_t)64));
	s->in = second_reads(&s->o, s->bytes);
}

void
second_start(struct second_stream *s)
{
	char err[UROCE_ERR_BYTES];

	second = second_make(&s->in);
	stream_done(&s->in);
	for (unsigned int i = 0; i < daemon_engines; i++)
		assert_int_equal(rte_eal_remote_launch(daemon_run_engine, second, i + 1), 0);
	assert_int_equal(uroce_control_start(second, err), 0);
}

void
second_begin(struct second_stream *s, uint32_t sessions, uint32_t qps)
{
	second_read(s, sessions, qps);
	second_start(s);
}

void
second_end(struct second_stream *s)
{
	uroce_control_stop(second);
	for (unsigned int i = 0; i < daemon_engines; i++)
		uroce_engine_stop(second, i);
	daemon_wait_engines();
	/* The socket is the first one's, which ends it. */
	second->bound = false;
	uroce_destroy(second);
	daemon_take_sigbus();
	daemon_go_on();
	assert_true(daemon_wait_empty());
	stream_free(&s->o);
	free(s->in.fds);
	free(s->bytes);
}
