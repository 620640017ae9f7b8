/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: the connection manager and the configuration. */
#include "counters.h"
#include "telemetry.h"

/* ---- Connections ---- */
int
tel_cm(struct control *c, const char *params, struct rte_tel_data *d)
{
	const struct cm_counters *n = cm_counters(gsi_cm(c->gsi));
	const struct gsi_counters *g = gsi_counters(c->gsi);
	struct rte_tel_data *in;
	struct cm_usage u;

	cm_usage(gsi_cm(c->gsi), &u);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_u64(d, "ids", c->count[OBJ_CM_ID]);
	rte_tel_data_add_dict_u64(d, "listeners", u.listeners);
	rte_tel_data_add_dict_u64(d, "connections", u.conns);
	rte_tel_data_add_dict_u64(d, "half_open", u.half_open);
	rte_tel_data_add_dict_u64(d, "kept", u.kept);
	rte_tel_data_add_dict_u64(d, "peers", u.peers);
	in = tel_dict(d, "cm");
	if (in != NULL)
		tel_counters(in, &counters_cm, n);
	in = tel_dict(d, "gsi");
	if (in != NULL)
		tel_counters(in, &counters_gsi, g);
	return 0;
}

/* ---- The configuration ---- */
int
tel_config(struct control *c, const char *params, struct rte_tel_data *d)
{
	rte_tel_data_start_dict(d);
	tel_text(d, "file", c->s.config_file != NULL ? c->s.config_file : "");
	rte_tel_data_add_dict_u64(d, "reloads", c->reloads.done);
	rte_tel_data_add_dict_u64(d, "refused", c->reloads.refused);
	tel_text(d, "error", c->reloads.error);
	tel_text(d, "needs_restart", c->reloads.restart);
	return 0;
}
