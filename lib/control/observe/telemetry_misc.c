/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: the connection manager, the daemon's memory and the configuration. */
#include <malloc.h>

#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mempool.h>

#include "control/cma/gsi_priv.h"
#include "control/observe/counters_priv.h"
#include "control/observe/telemetry_priv.h"

/* ---- Connections ---- */
int
tel_cm(struct control *c, const char *params, struct rte_tel_data *d)
{
	const struct cm_counters *n = cm_counters(gsi_cm(c->gsi));
	const struct gsi_counters *g = gsi_counters(c->gsi);
	struct cm_usage u;

	cm_usage(gsi_cm(c->gsi), &u);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "ids", c->count[OBJ_CM_ID]);
	rte_tel_data_add_dict_uint(d, "listeners", u.listeners);
	rte_tel_data_add_dict_uint(d, "connections", u.conns);
	rte_tel_data_add_dict_uint(d, "half_open", u.half_open);
	rte_tel_data_add_dict_uint(d, "kept", u.kept);
	rte_tel_data_add_dict_uint(d, "peers", u.peers);
	tel_counters(tel_dict(d, "cm"), &counters_cm, n);
	tel_counters(tel_dict(d, "gsi"), &counters_gsi, g);
	return 0;
}

/* ---- Memory ---- */
int
tel_memory(struct control *c, const char *params, struct rte_tel_data *d)
{
	struct mallinfo2 heap = mallinfo2();
	struct rte_malloc_socket_stats s;
	uint64_t dpdk = 0;

	for (unsigned int i = 0; i < rte_socket_count(); i++)
		if (rte_malloc_get_socket_stats(rte_socket_id_by_idx(i), &s) == 0)
			dpdk += s.heap_allocsz_bytes;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "heap_used", heap.uordblks + heap.hblkhd);
	rte_tel_data_add_dict_uint(d, "heap_kept", heap.fordblks);
	rte_tel_data_add_dict_uint(d, "dpdk_used", dpdk);
	rte_tel_data_add_dict_uint(d, "packet_buffers", c->s.sh.pool->size);
	rte_tel_data_add_dict_uint(d, "packet_buffers_used", rte_mempool_in_use_count(c->s.sh.pool));
	return 0;
}

/* ---- The daemon before ---- */
int
tel_handover(struct control *c, const char *params, struct rte_tel_data *d)
{
	const struct taken_over *t = &c->taken_over;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "daemons", t->daemons);
	rte_tel_data_add_dict_uint(d, "sessions", t->sessions);
	rte_tel_data_add_dict_uint(d, "qps", t->qps);
	rte_tel_data_add_dict_uint(d, "refused", t->refused);
	rte_tel_data_add_dict_uint(d, "gap_us", t->gap_ns / 1000);
	rte_tel_data_add_dict_uint(d, "crashes", t->crashes);
	rte_tel_data_add_dict_uint(d, "qps_lost", t->qps_lost);
	rte_tel_data_add_dict_uint(d, "saves", c->saving.checkpoint != NULL);
	rte_tel_data_add_dict_uint(d, "saved_transactions", c->saving.transactions);
	rte_tel_data_add_dict_uint(d, "saved_objects", c->saving.written);
	rte_tel_data_add_dict_uint(d, "saved_bytes", c->saving.checkpoint != NULL ? checkpoint_bytes(c->saving.checkpoint) : 0);
	rte_tel_data_add_dict_uint(d, "unsaved_sessions", c->saving.sessions_lost);
	return 0;
}

/* ---- The configuration ---- */
int
tel_config(struct control *c, const char *params, struct rte_tel_data *d)
{
	rte_tel_data_start_dict(d);
	tel_text(d, "file", c->s.config_file != NULL ? c->s.config_file : "");
	rte_tel_data_add_dict_uint(d, "reloads", c->reloads.done);
	rte_tel_data_add_dict_uint(d, "refused", c->reloads.refused);
	tel_text(d, "error", c->reloads.error);
	tel_text(d, "needs_restart", c->reloads.restart);
	return 0;
}
