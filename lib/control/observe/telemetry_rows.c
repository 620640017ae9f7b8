/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of many objects in one answer, as JSON. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>

#include <rte_common.h>

#include "control/cma/cma_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_mr_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/observe/inspect_priv.h"
#include "control/observe/telemetry_priv.h"
#include "control/observe/telemetry_socket_priv.h"

enum {
	ROW_BYTES = 640,    /**< no row is longer */
	TAIL_BYTES = 128,   /**< what follows the rows */
	NUMBER_BYTES = 20,  /**< of 2^64 - 1 */
	PAGE_ROWS = 2048,   /**< of an answer; few of them are so short that more would have room */
};

/* ---- JSON ---- */
void
tel_json_add(struct tel_json *j, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(j->text + j->used, j->room - j->used, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= j->room - j->used) {
		j->full = true;
		j->text[j->used] = '\0';
	} else {
		j->used += (size_t)n;
	}
}

void
tel_json_string(struct tel_json *j, const char *s)
{
	/* At most two bytes for each, and the quotes. */
	if (j->room - j->used < 2 * strlen(s) + 3) {
		j->full = true;
		return;
	}
	j->text[j->used++] = '"';
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			j->text[j->used++] = '\\';
		j->text[j->used++] = *s < ' ' || *s > '~' ? '?' : *s;
	}
	j->text[j->used++] = '"';
	j->text[j->used] = '\0';
}

void
tel_json_number(struct tel_json *j, uint64_t n)
{
	char digits[NUMBER_BYTES];
	unsigned int i = NUMBER_BYTES;

	do {
		digits[--i] = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	if (j->room - j->used < NUMBER_BYTES - i + 2) {
		j->full = true;
		return;
	}
	j->text[j->used++] = ',';
	memcpy(j->text + j->used, digits + i, NUMBER_BYTES - i);
	j->used += NUMBER_BYTES - i;
	j->text[j->used] = '\0';
}

static void
add_numbers(struct tel_json *j, const uint64_t *n, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		tel_json_number(j, n[i]);
}

static void
add_char(struct tel_json *j, char c)
{
	if (j->room - j->used < 2) {
		j->full = true;
		return;
	}
	j->text[j->used++] = c;
	j->text[j->used] = '\0';
}

/** Append a comma and @p s. */
static void
add_text(struct tel_json *j, const char *s)
{
	add_char(j, ',');
	tel_json_string(j, s);
}

/* ---- Rows: what follows the columns of add_row() ---- */
static void
row_session(struct control *c, const struct inspect_ref *r, struct tel_json *j)
{
	const struct session *s = r->session;

	tel_json_string(j, s->cma != NULL ? "rdma_cm" : "verbs");
	tel_json_add(j, ",%u,%u,%u,%u,%u,%u,%u,%u,%lu", s->tab[OBJ_QP].used, s->tab[OBJ_CQ].used, s->tab[OBJ_MR].used,
		     s->tab[OBJ_PD].used, s->tab[OBJ_SRQ].used, s->tab[OBJ_AH].used, s->tab[OBJ_MW].used, s->tab[OBJ_CM_ID].used,
		     (unsigned long)s->used[QUOTA_memory]);
}

static void
row_qp(struct control *c, const struct inspect_ref *r, struct tel_json *j)
{
	const struct obj_qp *qp = r->obj;
	char peer[INET6_ADDRSTRLEN] = "";
	struct qp_glance g;

	qp_glance(qp->qp, &g);
	if (g.ip_version != 0)
		inet_ntop(g.ip_version == 4 ? AF_INET : AF_INET6, g.dip, peer, sizeof(peer));
	tel_json_string(j, qp_type_name((enum uroce_qp_type)g.type));
	add_text(j, qp_state_name((enum uroce_qp_state)g.state));
	tel_json_number(j, qp->engine);
	add_text(j, peer);
	tel_json_number(j, g.dest_qpn);
	add_text(j, req_wait_name(g.wait));
	add_numbers(j, (const uint64_t[]){ g.cwnd, g.packets_in_flight, g.srtt_ns, g.sends, g.receives, g.tx_bytes, g.tx_packets, g.rx_bytes, g.losses,
					   g.retransmitted }, 10);
}

static void
row_cq(struct control *c, const struct inspect_ref *r, struct tel_json *j)
{
	struct cq_view v;

	cq_look(((const struct obj_cq *)r->obj)->cq, &v);
	tel_json_add(j, "%u,%u,%u,%s,%s", v.size, v.unpolled, v.users, v.channel ? "true" : "false", v.overrun ? "true" : "false");
}

static void
row_mr(struct control *c, const struct inspect_ref *r, struct tel_json *j)
{
	const struct mr *mr = ((const struct obj_mr *)r->obj)->mr;

	tel_json_add(j, "%u,%lu,%lu,%u", mr->pd, (unsigned long)mr->addr, (unsigned long)mr->length, mr->access);
}

static void
row_pd(struct control *c, const struct inspect_ref *r, struct tel_json *j)
{
	tel_json_add(j, "%u", ((const struct obj_pd *)r->obj)->obj.users);
}

static void
row_srq(struct control *c, const struct inspect_ref *r, struct tel_json *j)
{
	const struct obj_srq *srq = r->obj;

	tel_json_add(j, "%u,%u,%u,%u", srq->obj.handle, srq->max_wr, srq->max_sge, srq->engine);
}

static void
add_cm_address(struct tel_json *j, const struct ctl_cm_addr *a)
{
	char text[INET6_ADDRSTRLEN] = "";

	if (a->family != 0)
		inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->gid + (a->family == 4 ? 12 : 0), text, sizeof(text));
	tel_json_add(j, ",\"%s\",%u", text, a->port);
}

static void
row_cm_id(struct control *c, const struct inspect_ref *r, struct tel_json *j)
{
	static const char *const states[] = { [CMA_IDLE] = "IDLE",	 [CMA_BOUND] = "BOUND",	      [CMA_RESOLVING] = "RESOLVING",
					      [CMA_RESOLVED] = "RESOLVED", [CMA_ROUTED] = "ROUTED", [CMA_LISTENING] = "LISTEN",
					      [CMA_CONNECTION] = "CONNECT" };
	const struct cma_id *id = r->obj;

	tel_json_add(j, "%u,\"%s\",%u,%u", id->obj.handle, states[id->state], id->qpn, id->remote_qpn);
	add_cm_address(j, &id->local);
	add_cm_address(j, &id->remote);
}

#define OWNER "\"number\",\"session\",\"program\",\"pid\",\"uid\",\"device\","
static const struct {
	const char *name;
	enum inspect_kind kind;
	const char *columns;
	void (*row)(struct control *c, const struct inspect_ref *r, struct tel_json *j);
} kinds[] = {
	{ "session", INSPECT_SESSION,
	  OWNER "\"kind\",\"qps\",\"cqs\",\"mrs\",\"pds\",\"srqs\",\"ahs\",\"mws\",\"cm_ids\",\"registered_bytes\"",
	  row_session },
	{ "qp", INSPECT_QP,
	  OWNER "\"type\",\"state\",\"engine\",\"peer\",\"peer_qpn\",\"waits_for\",\"cwnd\",\"in_flight\",\"srtt_ns\",\"sends\",\"receives\","
		"\"tx_bytes\",\"tx_packets\",\"rx_bytes\",\"losses\",\"retransmitted\"",
	  row_qp },
	{ "cq", INSPECT_CQ, OWNER "\"entries\",\"unpolled\",\"users\",\"channel\",\"overrun\"", row_cq },
	{ "mr", INSPECT_MR, OWNER "\"pd\",\"addr\",\"length\",\"access\"", row_mr },
	{ "pd", INSPECT_PD, OWNER "\"users\"", row_pd },
	{ "srq", INSPECT_SRQ, OWNER "\"handle\",\"max_wr\",\"max_sge\",\"engine\"", row_srq },
	{ "cm_id", INSPECT_CM_ID, OWNER "\"handle\",\"state\",\"qpn\",\"peer_qpn\",\"local\",\"local_port\",\"remote\",\"remote_port\"", row_cm_id },
};

static void
add_row(struct control *c, unsigned int k, const struct inspect_ref *r, struct tel_json *j)
{
	const struct session *s = r->session;

	tel_json_add(j, "[%lu", (unsigned long)r->number);
	tel_json_number(j, s->id);
	add_text(j, s->program);
	tel_json_number(j, (uint64_t)s->pid);
	tel_json_number(j, s->uid);
	add_text(j, s->port != NULL ? s->port->conf.name : "");
	add_char(j, ',');
	kinds[k].row(c, r, j);
	add_char(j, ']');
}

void
tel_rows(struct control *c, const char *params, struct tel_json *j)
{
	size_t name = strcspn(params, ",");
	struct inspect_filter f = INSPECT_ALL;
	struct inspect_refs refs;
	unsigned int k = 0;
	uint64_t next = 0;
	uint32_t i;

	while (k < RTE_DIM(kinds) && (strlen(kinds[k].name) != name || strncmp(kinds[k].name, params, name) != 0))
		k++;
	params += name;
	if (k == RTE_DIM(kinds) ||
	    (params[0] != '\0' && (strncmp(params, ",from=", 6) != 0 || !tel_number(params + 6, &f.from)))) {
		tel_json_add(j, "{\"error\":[\"give session, qp, cq, mr, pd, srq or cm_id, and ,from=NUMBER to go on\"]}");
		return;
	}
	tel_json_add(j, "{\"columns\":[%s],\"rows\":[", kinds[k].columns);
	control_lock(c);
	inspect_find(c, kinds[k].kind, &f, PAGE_ROWS, &refs);
	for (i = 0; i < refs.n && j->room - j->used > ROW_BYTES + TAIL_BYTES; i++) {
		if (i > 0)
			add_char(j, ',');
		add_row(c, k, &refs.ref[i], j);
	}
	if (i < refs.n)
		next = refs.ref[i].number;
	else if (refs.n < refs.all)
		next = refs.ref[i - 1].number + 1;
	control_unlock(c);
	tel_json_add(j, "],\"all\":%u,\"next\":%lu,\"ns\":%lu}", refs.all, (unsigned long)next, (unsigned long)control_now_ns());
	free(refs.ref);
}
