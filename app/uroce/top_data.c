/* SPDX-License-Identifier: BSD-3-Clause */
/* What uroce top shows: fetched from the daemon, compared with the turn before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "top.h"

enum { COUNTERS = TOP_RETRANSMITTED + 1 };
enum { ENGINE_NAME = 24, COLUMNS_MAX = 64 };

const char *const top_views[TOP_VIEWS + 1] = { "qp", "session", "port", "engine", NULL };

/* ---- Rows ---- */
static int
by_number(const void *a, const void *b)
{
	uint64_t x = ((const struct top_row *)a)->number, y = ((const struct top_row *)b)->number;

	return x < y ? -1 : x > y;
}

static enum top_value sort_value;

static int
by_value(const void *a, const void *b)
{
	double x = ((const struct top_row *)a)->value[sort_value], y = ((const struct top_row *)b)->value[sort_value];

	return x > y ? -1 : x < y ? 1 : by_number(a, b);
}

void
top_sort(struct top *t)
{
	sort_value = t->sort;
	if (t->n > 0)
		qsort(t->rows, t->n, sizeof(*t->rows), by_value);
}

void
top_clear(struct top *t)
{
	free(t->rows);
	t->rows = NULL;
	t->n = 0;
	t->ns = 0;
}

bool
top_shows(const struct top *t, const struct top_row *r)
{
	char number[24];

	if (t->filter[0] == '\0')
		return true;
	snprintf(number, sizeof(number), "%lu", (unsigned long)r->number);
	return strcmp(number, t->filter) == 0 || strstr(r->name, t->filter) != NULL || strstr(r->peer, t->filter) != NULL ||
	       strcasecmp(r->state, t->filter) == 0 || (r->waits_for[0] != '\0' && strstr(r->waits_for, t->filter) != NULL);
}

/* Rates of @p r since @p before, which is NULL if it wasn't there; and its history. */
static void
compare(struct top_row *r, const struct top_row *before, double seconds)
{
	static const unsigned int bits[COUNTERS] = { 64, 64, 32, 24, 64, 32, 32 };

	r->fresh = before == NULL || seconds <= 0;
	if (before != NULL)
		memcpy(r->history, before->history + 1, sizeof(r->history) - sizeof(r->history[0]));
	for (unsigned int i = 0; i < COUNTERS; i++) {
		uint64_t d = r->fresh ? 0 : r->counter[i] - before->counter[i];

		if (bits[i] < 64)
			d &= (UINT64_C(1) << bits[i]) - 1;
		/* Those of a session become less when its QPs go. */
		if (d >> (bits[i] - 1) != 0)
			d = 0;
		r->value[i] = r->fresh ? 0 : (double)d * (i <= TOP_RX_BPS ? 8 : 1) / seconds;
	}
	r->history[TOP_HISTORY - 1] = (float)(r->value[TOP_TX_BPS] + r->value[TOP_RX_BPS]);
}

/* Take @p rows, sorted by number, for those of the turn before. */
static void
take(struct top *t, struct top_row *rows, size_t n, uint64_t ns)
{
	size_t old = 0;

	t->seconds = t->ns != 0 ? (double)(ns - t->ns) / 1e9 : 0;
	if (t->n > 0)
		qsort(t->rows, t->n, sizeof(*t->rows), by_number);
	for (size_t i = 0; i < n; i++) {
		while (old < t->n && t->rows[old].number < rows[i].number)
			old++;
		compare(&rows[i], old < t->n && t->rows[old].number == rows[i].number ? &t->rows[old] : NULL, t->seconds);
	}
	free(t->rows);
	t->rows = rows;
	t->n = n;
	t->ns = ns;
}

/* ---- QPs and sessions ---- */
enum { C_NUMBER, C_SESSION, C_PROGRAM, C_PID, C_UID, C_STATE, C_PEER, C_PEER_QPN, C_WAITS, C_CWND, C_FLIGHT, C_RTT, C_COUNTERS, C_ALL = C_COUNTERS + COUNTERS };
static const char *const names[C_ALL] = { "number", "session", "program", "pid", "uid", "state", "peer", "peer_qpn", "waits_for", "cwnd", "in_flight", "srtt_ns",
					  "tx_bytes", "rx_bytes", "sends", "receives", "tx_packets", "losses", "retransmitted" };

/* A value in the text of a page: digits, or what is between quotes. */
struct cell {
	const char *p;
	size_t n;
};
struct page {
	const char *p;            /* what was not read yet */
	size_t place[C_ALL];      /* which column is where */
	size_t columns;
};

/* Read "[value,value,...]". @return the number of values; 0: that's not what is there. At most @p most of them are kept. */
static size_t
scan_list(struct page *g, struct cell *cells, size_t most)
{
	const char *p = g->p;
	size_t n = 0;

	if (*p++ != '[')
		return 0;
	for (;; p++) {
		bool text = *p == '"';
		const char *begun = p += text;

		if (text)
			while (*p != '"' && *p != '\0')
				p += *p == '\\' && p[1] != '\0' ? 2 : 1;
		else
			p += strcspn(p, ",]");
		if (n < most)
			cells[n] = (struct cell){ begun, (size_t)(p - begun) };
		n++;
		if (text && *p == '"')
			p++;
		if (*p == ']')
			break;
		if (*p != ',')
			return 0;
	}
	g->p = p + 1;
	return n;
}

/* Read the names of the columns. */
static bool
scan_columns(struct page *g)
{
	struct cell cells[COLUMNS_MAX];

	g->p = strchr(g->p, '[');
	g->columns = g->p != NULL ? scan_list(g, cells, COLUMNS_MAX) : 0;
	if (g->columns == 0 || g->columns > COLUMNS_MAX || strncmp(g->p, ",\"rows\":[", 9) != 0)
		return false;
	g->p += 9;
	for (size_t i = 0; i < C_ALL; i++) {
		size_t k = 0;

		while (k < g->columns && (strlen(names[i]) != cells[k].n || strncmp(names[i], cells[k].p, cells[k].n) != 0))
			k++;
		if (k == g->columns)
			return false;
		g->place[i] = k;
	}
	return true;
}

static uint64_t
cell(const struct cell *c)
{
	return strtoull(c->p, NULL, 10);
}

static void
take_qp(struct top_row *r, const struct cell *cells, const size_t *place)
{
#define CELL(i) (&cells[place[i]])
#define TEXT(i, most) (int)(CELL(i)->n < (most) ? CELL(i)->n : (most)), CELL(i)->p
	memset(r, 0, sizeof(*r));
	r->number = cell(CELL(C_NUMBER));
	r->uid = (uint32_t)cell(CELL(C_UID));
	snprintf(r->name, sizeof(r->name), "%.*s/%lu", TEXT(C_PROGRAM, 24), (unsigned long)cell(CELL(C_PID)));
	if (CELL(C_PEER)->n > 0)
		snprintf(r->peer, sizeof(r->peer), "%.*s/%lu", TEXT(C_PEER, 36), (unsigned long)cell(CELL(C_PEER_QPN)));
	snprintf(r->state, sizeof(r->state), "%.*s", TEXT(C_STATE, 7));
	snprintf(r->waits_for, sizeof(r->waits_for), "%.*s", TEXT(C_WAITS, 15));
	r->value[TOP_CWND] = (double)cell(CELL(C_CWND));
	r->value[TOP_IN_FLIGHT] = (double)cell(CELL(C_FLIGHT));
	r->value[TOP_RTT_US] = (double)cell(CELL(C_RTT)) / 1e3;
	for (size_t i = 0; i < COUNTERS; i++)
		r->counter[i] = cell(CELL(C_COUNTERS + i));
#undef TEXT
#undef CELL
}

static uint64_t
member(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p != NULL ? strtoull(p + strlen(name), NULL, 10) : 0;
}

struct rows {
	struct top_row *row;
	size_t n, room;
};

static bool
take_page(struct rows *r, struct page *g)
{
	struct cell cells[COLUMNS_MAX];

	if (!scan_columns(g))
		return false;
	while (*g->p == '[') {
		if (scan_list(g, cells, COLUMNS_MAX) != g->columns)
			return false;
		if (r->n == r->room) {
			struct top_row *more = realloc(r->row, (2 * r->room + 64) * sizeof(*more));

			if (more == NULL)
				return false;
			r->room = 2 * r->room + 64;
			r->row = more;
		}
		take_qp(&r->row[r->n++], cells, g->place);
		g->p += *g->p == ',';
	}
	return *g->p == ']';
}

/* @return the rows of all QPs, sorted by number, the caller's to free; NULL: @p err says why. @p ns receives the daemon's time. */
static struct top_row *
fetch_qps(struct top *t, size_t *n, uint64_t *ns, char *err, size_t bytes)
{
	struct rows rows = { .row = malloc(sizeof(*rows.row)), .room = 1 };
	uint64_t from = 0, next;
	char command[64];

	for (;;) {
		struct page g = { 0 };

		snprintf(command, sizeof(command), "/uroce/rows,qp,from=%lu", (unsigned long)from);
		g.p = ask_page(err, bytes, command);
		if (g.p == NULL)
			break;
		if (rows.row == NULL || !take_page(&rows, &g)) {
			snprintf(err, bytes, "the daemon's answer can't be understood, or there is no memory");
			break;
		}
		if (from == 0)
			*ns = member(g.p, "\"ns\":");
		next = member(g.p, "\"next\":");
		*n = rows.n;
		if (next <= from || rows.n >= TOP_ROWS_MAX)
			return rows.row;
		from = next;
	}
	free(rows.row);
	return NULL;
}

/* Add up the QPs of each program. A session of verbs has one pid; several sessions of one process are one row. */
static size_t
sum_up(struct top_row *rows, size_t n)
{
	size_t kept = 0, k;

	for (size_t i = 0; i < n; i++) {
		uint64_t pid = strtoul(strrchr(rows[i].name, '/') + 1, NULL, 10);

		for (k = 0; k < kept && rows[k].number != pid; k++)
			;
		if (k == kept) {
			rows[kept] = rows[i];
			rows[kept].number = pid;
			rows[kept].peer[0] = rows[kept].state[0] = rows[kept].waits_for[0] = '\0';
			kept++;
			continue;
		}
		for (size_t c = 0; c < COUNTERS; c++)
			rows[k].counter[c] += rows[i].counter[c];
		rows[k].value[TOP_IN_FLIGHT] += rows[i].value[TOP_IN_FLIGHT];
	}
	if (kept > 0)
		qsort(rows, kept, sizeof(*rows), by_number);
	return kept;
}

/* ---- Ports and engines ---- */
static void
take_port(struct top_row *r, json_object *o)
{
	json_object *stats = NULL;

	json_object_object_get_ex(o, "ethdev_stats", &stats);
	snprintf(r->state, sizeof(r->state), "%.7s", text_of(o, "link"));
	r->counter[TOP_TX_BPS] = value_of(stats, "obytes");
	r->counter[TOP_RX_BPS] = value_of(stats, "ibytes");
	r->counter[TOP_PACKETS] = value_of(stats, "ipackets") + value_of(stats, "opackets");
	r->counter[TOP_LOSSES] = value_of(stats, "imissed") + value_of(stats, "rx_nombuf");
}

static void
take_engine(struct top_row *r, json_object *o)
{
	json_object *load = NULL, *transport = NULL;

	json_object_object_get_ex(o, "load", &load);
	json_object_object_get_ex(o, "transport", &transport);
	r->value[TOP_LOAD] = (double)value_of(load, "load_percent");
	r->counter[TOP_TX_BPS] = value_of(transport, "tx_bytes");
	r->counter[TOP_RX_BPS] = value_of(transport, "rx_bytes");
	r->counter[TOP_PACKETS] = value_of(transport, "tx_packets") + value_of(transport, "rx_packets");
	r->counter[TOP_LOSSES] = value_of(transport, "packet_seq_err") + value_of(transport, "implied_nak_seq_err") +
				 value_of(transport, "local_ack_timeout_err");
	r->counter[TOP_RETRANSMITTED] = value_of(transport, "retransmitted_packets");
}

/* @return the rows of ports or engines. */
static struct top_row *
fetch_few(struct top *t, size_t *n, uint64_t *ns, char *err, size_t bytes)
{
	const char *what = t->view == TOP_PORT ? "port" : "engine";
	char command[COMMAND_BYTES];
	json_object *list, *o;
	struct top_row *rows;
	struct timespec now;

	snprintf(command, sizeof(command), "/uroce/%s", what);
	list = ask_quietly(err, bytes, command);
	if (list == NULL)
		return NULL;
	*n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	rows = calloc(*n + 1, sizeof(*rows));
	for (size_t i = 0; rows != NULL && i < *n; i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(list, i));

		snprintf(command, sizeof(command), "/uroce/%s,%s", what, name);
		o = ask_quietly(err, bytes, command);
		if (o == NULL) {
			free(rows);
			rows = NULL;
			break;
		}
		rows[i].number = i;
		snprintf(rows[i].name, sizeof(rows[i].name), "%s%.*s", t->view == TOP_ENGINE ? "engine " : "", ENGINE_NAME, name);
		if (t->view == TOP_PORT)
			take_port(&rows[i], o);
		else
			take_engine(&rows[i], o);
		json_object_put(o);
	}
	json_object_put(list);
	clock_gettime(CLOCK_MONOTONIC, &now);
	*ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return rows;
}

bool
top_update(struct top *t, char *err, size_t bytes)
{
	struct timespec before, after;
	struct top_row *rows;
	uint64_t ns = 0;
	size_t n = 0;

	clock_gettime(CLOCK_MONOTONIC, &before);
	if (t->view == TOP_QP || t->view == TOP_SESSION)
		rows = fetch_qps(t, &n, &ns, err, bytes);
	else
		rows = fetch_few(t, &n, &ns, err, bytes);
	if (rows == NULL)
		return false;
	if (t->view == TOP_SESSION)
		n = sum_up(rows, n);
	take(t, rows, n, ns);
	top_sort(t);
	clock_gettime(CLOCK_MONOTONIC, &after);
	t->fetch_ms = (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) / 1e6;
	return true;
}
