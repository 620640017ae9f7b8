/* SPDX-License-Identifier: BSD-3-Clause */
/* What uroce top shows as text: which columns fit on a line, and lines. */
#include <stdio.h>

#include "top.h"

enum {
	NUMBER_WIDTH = 10, PROGRAM_WIDTH = 20,         /* in front, where there is room */
	NUMBER_WIDTH_SHORT = 8, PROGRAM_WIDTH_SHORT = 16,
	NARROW = 100,                                  /* columns of a terminal that has no room for these widths */
	HISTORY_SHORT = 10,
	HISTORY_RANK = 6,                              /* columns of a higher rank give way to the short history */
};

#define Q (1u << TOP_QP)
#define S (1u << TOP_SESSION)
#define P (1u << TOP_PORT)
#define E (1u << TOP_ENGINE)
const struct top_column top_columns[] = {
	{ "TX Gb/s", "tx", TOP_TX_BPS, Q | S | P, 7, 0 },
	{ "RX Gb/s", "rx", TOP_RX_BPS, Q | S | P, 7, 5 },
	{ "SENDS/s", "sends", TOP_SENDS, Q | S, 7, 9 },
	{ "RECVS/s", "receives", TOP_RECEIVES, Q | S, 7, 11 },
	{ "PKTS/s", "packets", TOP_PACKETS, Q | S | P | E, 7, 10 },
	{ "LOSS/s", "losses", TOP_LOSSES, Q | S | P | E, 7, 2 },
	{ "RETX/s", "retransmitted", TOP_RETRANSMITTED, Q | S | E, 7, 3 },
	{ "RTT us", "rtt", TOP_RTT_US, Q, 8, 4 },
	{ "CWND", "cwnd", TOP_CWND, Q, 6, 7 },
	{ "FLIGHT", "in_flight", TOP_IN_FLIGHT, Q | S, 6, 12 },
	{ "LOAD%", "load", TOP_LOAD, E, 6, 0 },
	{ "STATE", NULL, TOP_STATE, Q, 5, 8 },
	{ "WAITS FOR", NULL, TOP_WAITS_FOR, Q, 13, 1 },
	{ "PEER", NULL, TOP_PEER, Q, 24, 13 },
};
const size_t top_nb_columns = sizeof(top_columns) / sizeof(top_columns[0]);

/* The columns of the view from the most important one on, and those of the short history: as many as fit. */
void
top_lay_out(const struct top *t, unsigned int width, unsigned int bars, struct top_layout *l)
{
	unsigned int used;

	*l = (struct top_layout){ .number = width < NARROW ? NUMBER_WIDTH_SHORT : NUMBER_WIDTH,
				  .program = width < NARROW ? PROGRAM_WIDTH_SHORT : PROGRAM_WIDTH };
	used = l->number + 1 + l->program;
	for (unsigned int rank = 0; rank <= top_nb_columns; rank++) {
		if (rank == HISTORY_RANK && bars > 0 && used + 1 + HISTORY_SHORT <= width) {
			l->history = HISTORY_SHORT;
			used += 1 + l->history;
		}
		for (size_t i = 0; i < top_nb_columns; i++) {
			const struct top_column *c = &top_columns[i];
			/* What the rows are sorted by is always there. */
			unsigned int own = c->value == t->sort ? 0 : c->rank;

			if ((c->views & 1u << t->view) != 0 && own == rank && used + 1 + c->width <= width) {
				l->columns |= 1u << i;
				used += 1 + c->width;
			}
		}
	}
	if (l->history > 0 && used + bars - l->history <= width)
		l->history = bars;
}

static const char *
text_of_column(const struct top_row *r, enum top_value v)
{
	return v == TOP_STATE ? r->state : v == TOP_WAITS_FOR ? r->waits_for : r->peer;
}

void
top_text(const struct top_row *r, enum top_value v, char *text, size_t bytes)
{
	if (v == TOP_TX_BPS || v == TOP_RX_BPS)
		snprintf(text, bytes, "%.3f", r->value[v] / 1e9);
	else if (v == TOP_RTT_US)
		snprintf(text, bytes, "%.1f", r->value[v]);
	else
		with_prefix(r->value[v], text, bytes);
}

void
top_head(const struct top *t, const struct top_layout *l, char *text, size_t bytes)
{
	static const char *const what[TOP_VIEWS] = { "PROGRAM", "PROGRAM", "PORT", "ENGINE" };
	static const char *const number[TOP_VIEWS] = { "QP", "PID", "", "" };
	int n = snprintf(text, bytes, "%*s %-*s", (int)l->number, number[t->view], (int)l->program, what[t->view]);

	for (size_t i = 0; i < top_nb_columns && n < (int)bytes; i++)
		if (l->columns & 1u << i)
			n += snprintf(text + n, bytes - (size_t)n, " %*s", top_columns[i].name != NULL ? (int)top_columns[i].width : -(int)top_columns[i].width,
				      top_columns[i].head);
}

void
top_line(const struct top *t, const struct top_row *r, const struct top_layout *l, char *text, size_t bytes)
{
	char number[24], value[24];
	int n;

	snprintf(number, sizeof(number), "%lu", (unsigned long)r->number);
	n = snprintf(text, bytes, "%*s %-*.*s", (int)l->number, t->view == TOP_QP || t->view == TOP_SESSION ? number : r->state, (int)l->program,
		     (int)l->program, r->name);
	for (size_t i = 0; i < top_nb_columns && n < (int)bytes; i++) {
		const struct top_column *c = &top_columns[i];

		if ((l->columns & 1u << i) == 0)
			continue;
		if (c->name == NULL) {
			n += snprintf(text + n, bytes - (size_t)n, " %-*.*s", (int)c->width, c->value == TOP_PEER ? TOP_NAME_BYTES : (int)c->width,
				      text_of_column(r, c->value));
			continue;
		}
		top_text(r, c->value, value, sizeof(value));
		n += snprintf(text + n, bytes - (size_t)n, " %*s", (int)c->width, r->fresh && c->value <= TOP_RETRANSMITTED ? "-" : value);
	}
}
