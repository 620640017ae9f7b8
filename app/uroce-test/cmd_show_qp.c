/* SPDX-License-Identifier: BSD-3-Clause */
/* show qp, show top, dump qp: QPs of all programs, those of the workloads included. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "format.h"
#include "control/observe/inspect.h"
#include "objects.h"
#include "shell.h"
#include "uroce/stack.h"

enum { QPS_MAX = 4096, EVENTS_MAX = 32, PSN_BITS = 0xffffff, TOP_MAX = 1000, INTERVAL_MAX = 60 };

/** The QPs that a command is for. */
struct which {
	const struct host *host; /**< NULL: all */
	uint32_t qpn;            /**< 0: all */
};

/**
 * Read which QPs the user means: "qp1" or a QPN.
 * @return 0 or -1 with a message printed.
 */
static int
read_which(const struct call *c, struct which *w)
{
	const char *text = call_text(c, "qp");
	struct object *o = object_find(OBJECT_QP, text);
	char *end = NULL;
	unsigned long qpn;

	*w = (struct which){ .host = call_has(c, "host") ? host_find(call_text(c, "host")) : NULL };
	if (text == NULL || strcmp(text, "all") == 0)
		return 0;
	if (o != NULL && w->host != NULL && w->host != o->host)
		return call_fail(c, "%s is of %s, not of %s", text, o->host->name, w->host->name);
	if (o != NULL) {
		*w = (struct which){ .host = o->host, .qpn = o->v.qp->qp_num };
		return 0;
	}
	qpn = strtoul(text, &end, 0);
	if (*end != '\0' || text[0] < '0' || text[0] > '9' || qpn == 0 || qpn > PSN_BITS)
		return call_fail(c, "qp: '%s': expected all, a QP that `create` made, or a QPN (1 to 0xffffff)", text);
	w->qpn = (uint32_t)qpn;
	return 0;
}

/**
 * Get the QPs of @p h.
 * @return how many there are, at most QPS_MAX.
 */
static uint32_t
take(const struct host *h, const struct inspect_filter *f, struct inspect_qp *qps)
{
	struct inspect_filter of_port = *f;

	of_port.port = (int)h->port;
	return inspect_qps(h->stack->control, &of_port, qps, QPS_MAX);
}

static char *
address_text(const uint8_t ip[16], uint8_t version, char *text)
{
	if (version == 0 || inet_ntop(version == 4 ? AF_INET : AF_INET6, ip, text, INET6_ADDRSTRLEN) == NULL)
		snprintf(text, INET6_ADDRSTRLEN, "-");
	return text;
}

/** Begin a row with the columns that identify the QP. */
static void
add_identity(struct format *f, const struct host *h, const struct qp_view *v)
{
	format_host_row(f, h);
	format_hex(f, "qpn", v->qpn);
	format_text(f, "name", "%s", object_name(OBJECT_QP, h, v->qpn));
	format_text(f, "type", "%s", qp_type_name(v->type));
	format_text(f, "state", "%s", qp_state_name(v->state));
}

static void
add_row(struct format *f, const struct host *h, const struct inspect_qp *qp)
{
	char text[INET6_ADDRSTRLEN];

	add_identity(f, h, &qp->v);
	format_text(f, "peer", "%s", address_text(qp->v.dip, qp->v.ip_version, text));
	format_hex(f, "dest_qpn", qp->v.dest_qpn);
	format_number(f, "mtu", qp->v.mtu_bytes);
	format_number(f, "engine", qp->v.engine);
	format_number(f, "posted", qp->v.tx.posted);
	format_number(f, "in_flight", qp->v.tx.in_flight);
	format_number(f, "receives", qp->v.rx.srq ? qp->v.rx.srq_posted : qp->v.rx.posted);
	format_text(f, "program", "%s", qp->program);
}

/** Print what a QP is and, in words, what it is doing. */
static void
explain(const struct call *c, const struct host *h, const struct inspect_qp *qp)
{
	bool json = call_json(c);
	struct format *f = format_new();
	char text[INSPECT_TEXT_BYTES];

	add_row(f, h, qp);
	if (json)
		format_text(f, "why", "%s", inspect_explain(qp, text));
	format_end(f, json ? FORMAT_JSON : FORMAT_LIST, "", answer_stream());
	if (!json)
		puts(inspect_explain(qp, text));
}

/** Print QP @p w of each host that has it. */
static int
show_one(struct call *c, const struct which *w,
	 void (*print)(const struct call *c, const struct host *h, const struct inspect_qp *qp))
{
	struct inspect_qp qp;
	bool found = false;

	for (unsigned int i = 0; i < hosts_count(); i++) {
		struct host *h = host_at(i);

		if ((w->host != NULL && w->host != h) || inspect_qp(h->stack->control, w->qpn, &qp) != 0)
			continue;
		if (found)
			putchar('\n');
		found = true;
		print(c, h, &qp);
	}
	return found ? 0 : call_fail(c, "no QP 0x%x%s%s; `show qp` lists those there are", w->qpn, w->host != NULL ? " on " : "",
				     w->host != NULL ? w->host->name : "");
}

static int
show_qp(struct call *c)
{
	struct inspect_filter filter = INSPECT_ALL;
	struct inspect_qp *qps;
	struct format *f;
	struct which w;

	if (read_which(c, &w) != 0)
		return -1;
	if (w.qpn != 0)
		return show_one(c, &w, explain);
	qps = calloc(QPS_MAX, sizeof(*qps));
	if (qps == NULL)
		return call_fail(c, "no memory");
	filter.state = call_choice(c, "state", -1);
	f = format_new();
	for (unsigned int i = 0; i < hosts_count(); i++) {
		uint32_t n = w.host == NULL || w.host == host_at(i) ? take(host_at(i), &filter, qps) : 0;

		for (uint32_t k = 0; k < n; k++)
			add_row(f, host_at(i), &qps[k]);
	}
	free(qps);
	return call_answer(c, f, FORMAT_TABLE, "no QP");
}

/* ---- All about one QP ---- */
static void
add_requester(struct format *f, const struct qp_view *v)
{
	format_number(f, "sq depth", v->tx.depth);
	format_number(f, "sq posted", v->tx.posted);
	format_number(f, "sq in flight", v->tx.in_flight);
	format_text(f, "sq oldest", "%s, id %" PRIu64 ", %u bytes", wr_op_name(v->tx.head_op), v->tx.head_wr_id, v->tx.head_bytes);
	format_text(f, "sq sending", "%s", wr_op_name(v->tx.next_op));
	format_hex(f, "psn unacknowledged", v->tx.psn_una);
	format_hex(f, "psn to send", v->tx.psn_cur);
	format_hex(f, "psn beyond sent", v->tx.psn_max);
	format_hex(f, "psn of next wqe", v->tx.psn_next);
	format_number(f, "packets in flight", v->tx.packets_in_flight);
	format_number(f, "cwnd", v->tx.cwnd);
	format_number(f, "cwnd after losses", v->tx.loss_cwnd);
	format_number(f, "cwnd of cc", v->tx.cc_cwnd);
	format_text(f, "cc", "%s", tp_cc_name(v->tx.cc));
	format_number(f, "rate bit/s", v->tx.rate_bps);
	format_text(f, "reads and atomics", "%u of %u", v->tx.rd_out, v->tx.max_rd);
	format_text(f, "retries left", "%u of %u", v->tx.retry_left, v->tx.retry_cnt);
	format_text(f, "rnr retries left", "%u of %u", v->tx.rnr_left, v->tx.rnr_retry);
	format_number(f, "timeout code", v->tx.timeout);
	format_bool(f, "waits for rnr", v->tx.rnr_wait);
	if (v->tx.credits)
		format_text(f, "credits", "%d left", v->tx.credits_left);
	else
		format_text(f, "credits", "the peer gives none");
	format_bool(f, "selective repeat", v->tx.selective);
	format_number(f, "packets lost", v->tx.lost);
	format_number(f, "srtt ns", v->tx.srtt_ns);
	format_number(f, "shortest rtt ns", v->tx.rtt_min_ns);
	format_text(f, "waits for", "%s", req_wait_name(v->tx.wait));
	format_bool(f, "active", v->tx.active);
	format_bool(f, "watched", v->tx.watched);
}

static void
add_responder(struct format *f, const struct qp_view *v)
{
	format_number(f, "rq depth", v->rx.depth);
	format_number(f, "rq posted", v->rx.posted);
	if (v->rx.srq)
		format_text(f, "srq posted", "%u of %u", v->rx.srq_posted, v->rx.srq_depth);
	format_hex(f, "psn expected", v->rx.epsn);
	format_number(f, "msn", v->rx.msn);
	format_bool(f, "within a message", v->rx.midway);
	format_bool(f, "rnr nak sent", v->rx.rnr_nak_sent);
	format_bool(f, "sequence nak sent", v->rx.seq_nak_sent);
	format_number(f, "rnr timer code", v->rx.min_rnr_timer);
	format_text(f, "responses pending", "%u of %u", v->rx.res_pending, v->rx.max_dest_rd);
	format_number(f, "packets reordered", v->rx.reordered);
	format_text(f, "send cq", "%u of %u not polled", v->send_cq.unpolled, v->send_cq.size);
	format_text(f, "recv cq", "%u of %u not polled", v->recv_cq.unpolled, v->recv_cq.size);
}

static void
add_path(struct format *f, const struct qp_view *v)
{
	char sip[INET6_ADDRSTRLEN], dip[INET6_ADDRSTRLEN];

	format_hex(f, "pkey", v->pkey);
	format_number(f, "pd", v->pd);
	if (v->ip_version == 0)
		return;
	format_text(f, "path", "%s to %s, %02x:%02x:%02x:%02x:%02x:%02x, UDP port %u%s", address_text(v->sip, v->ip_version, sip),
		    address_text(v->dip, v->ip_version, dip), v->dmac[0], v->dmac[1], v->dmac[2], v->dmac[3], v->dmac[4],
		    v->dmac[5], v->sport, v->loopback ? ", loopback" : "");
	format_text(f, "path migration", "%s", qp_mig_name(v->path_mig_state));
}

static void
print_events(const struct host *h, uint32_t qpn)
{
	struct qp_event ev[EVENTS_MAX];
	char text[DIAG_LINE_BYTES];
	uint64_t now;
	uint32_t n = inspect_qp_events(h->stack->control, qpn, ev, EVENTS_MAX, &now);

	printf("%u last events%s\n", n, n > 0 ? ":" : "");
	for (uint32_t i = 0; i < n; i++) {
		printf("  %12.3f ms ago  psn 0x%06x  %s", (double)(now - ev[i].ns) / 1e6, ev[i].psn, qp_event_text(&ev[i], text));
		if (ev[i].count > 1)
			printf(", %u times", ev[i].count);
		putchar('\n');
	}
}

static void
dump(const struct call *c, const struct host *h, const struct inspect_qp *qp)
{
	char text[INSPECT_TEXT_BYTES];
	struct format *f = format_new();

	add_row(f, h, qp);
	add_path(f, &qp->v);
	add_requester(f, &qp->v);
	add_responder(f, &qp->v);
	format_end(f, FORMAT_LIST, "", stdout);
	puts(inspect_explain(qp, text));
	print_events(h, qp->v.qpn);
}

static int
dump_qp(struct call *c)
{
	struct which w;

	return read_which(c, &w) != 0 ? -1 : show_one(c, &w, dump);
}

/* ---- The busiest QPs ---- */
/** Progress of a QP between two samples. */
struct track {
	const struct host *host;
	struct inspect_qp qp;
	uint64_t sent, received; /**< packets between the samples */
};

static uint32_t
psn_sent(const struct inspect_qp *q)
{
	/* UC and UD have no acknowledgements: count the packets sent instead. */
	return q->v.type == UROCE_QPT_RC || q->v.type == UROCE_QPT_XRC_SEND ? q->v.tx.psn_una : q->v.tx.psn_next;
}

static int
busiest_first(const void *a, const void *b)
{
	const struct track *x = *(const struct track *const *)a, *y = *(const struct track *const *)b;
	uint64_t wx = x->sent + x->received, wy = y->sent + y->received;

	return wx > wy ? -1 : wx < wy;
}

static uint32_t
look(struct track *t, struct inspect_qp *qps)
{
	struct inspect_filter filter = INSPECT_ALL;
	uint32_t n = 0;

	for (unsigned int i = 0; i < hosts_count(); i++) {
		uint32_t k, got = take(host_at(i), &filter, qps);

		for (k = 0; k < got && n < QPS_MAX; k++)
			t[n++] = (struct track){ .host = host_at(i), .qp = qps[k] };
	}
	return n;
}

/** The samples are sorted by host and QPN. */
static bool
is_before(const struct track *a, const struct track *b)
{
	return a->host != b->host ? a->host < b->host : a->qp.v.qpn < b->qp.v.qpn;
}

static void
compare(struct track *now, uint32_t n, const struct track *then, uint32_t nb_then)
{
	for (uint32_t i = 0, k = 0; i < n; i++) {
		while (k < nb_then && is_before(&then[k], &now[i]))
			k++;
		if (k == nb_then || is_before(&now[i], &then[k]))
			continue;
		now[i].sent = (psn_sent(&now[i].qp) - psn_sent(&then[k].qp)) & PSN_BITS;
		now[i].received = (now[i].qp.v.rx.epsn - then[k].qp.v.rx.epsn) & PSN_BITS;
	}
}

static void
add_top(struct format *f, const struct track *t, double seconds)
{
	const struct qp_view *v = &t->qp.v;
	add_identity(f, t->host, v);
	format_real(f, "sent pkt/s", (double)t->sent / seconds, 0);
	format_real(f, "received pkt/s", (double)t->received / seconds, 0);
	format_number(f, "in_flight", v->tx.in_flight);
	format_number(f, "cwnd", v->tx.cwnd);
	format_real(f, "rtt_us", v->tx.srtt_ns / 1e3, 1);
	format_text(f, "program", "%s", t->qp.program);
}

static void
print_top(const struct track *t, uint32_t n, uint32_t rows, double seconds, bool json)
{
	static const struct track *order[QPS_MAX];
	struct format *f = format_new();

	for (uint32_t i = 0; i < n; i++)
		order[i] = &t[i];
	qsort(order, n, sizeof(order[0]), busiest_first);
	for (uint32_t i = 0; i < n && i < rows; i++)
		add_top(f, order[i], seconds);
	format_end(f, json ? FORMAT_JSON : FORMAT_TABLE, "no QP", answer_stream());
}

static int
show_top(struct call *c)
{
	/* At a terminal this repeats until a key is pressed; otherwise it prints once. */
	bool live = shell_interactive() && !call_json(c);
	uint64_t count = call_number(c, "count", live ? TOP_MAX : 1), rows = call_number(c, "rows", 10);
	double interval = call_real(c, "interval", 1);
	struct track *looks[2] = { calloc(QPS_MAX, sizeof(struct track)), calloc(QPS_MAX, sizeof(struct track)) };
	struct inspect_qp *qps = calloc(QPS_MAX, sizeof(*qps));
	uint32_t n[2] = { 0 };
	int rc = 0;

	if (looks[0] == NULL || looks[1] == NULL || qps == NULL)
		rc = call_fail(c, "no memory");
	else
		n[0] = look(looks[0], qps);
	shell_keys(live);
	for (uint64_t i = 1; rc == 0 && i <= count && shell_sleep((unsigned int)(interval * 1000)); i++) {
		struct track *now = looks[i % 2];

		n[i % 2] = look(now, qps);
		compare(now, n[i % 2], looks[!(i % 2)], n[!(i % 2)]);
		if (live)
			fputs("\033[H\033[J", stdout);
		print_top(now, n[i % 2], (uint32_t)rows, interval, call_json(c));
		if (live)
			puts("any key ends this");
		fflush(stdout);
		if (live && shell_key_pressed())
			break;
	}
	shell_keys(false);
	free(looks[0]);
	free(looks[1]);
	free(qps);
	return rc;
}

static const char *
names(unsigned int i)
{
	return i == 0 ? "all" : qp_names(i - 1);
}

static const struct arg show_args[] = {
	{ "qp", "a QPN; all if left out", ARG_NAME, ARG_OPTIONAL, .open = true, .names = names },
	ARG_ONLY_HOST,
	{ "state", "only those in it", ARG_CHOICE, ARG_KEYED, .words = state_words },
	ARG_JSON,
	{ 0 },
};
static const struct arg dump_args[] = {
	{ "qp", "a QPN", ARG_NAME, ARG_NEEDED, .open = true, .names = qp_names },
	ARG_ONLY_HOST,
	{ 0 },
};
static const struct arg top_args[] = {
	ARG_NUM("rows", "QPs (10)", 1, QPS_MAX),
	{ "interval", "seconds between looks (1)", ARG_REAL, ARG_KEYED, .min = 0.05, .max = INTERVAL_MAX },
	ARG_NUM("count", "looks (1; at a terminal until a key is pressed)", 1, TOP_MAX),
	ARG_JSON,
	{ 0 },
};
static const struct command table[] = {
	{ "show qp", "QPs; of one also in words what it does and what it waits for.", show_args, NULL, show_qp },
	{ "show top", "The busiest QPs.", top_args, NULL, show_top },
	{ "dump qp", "All that is known of a QP, with the last events of its life.", dump_args, NULL, dump_qp },
	{ 0 },
};
COMMANDS(table)
