/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * uroce top: what is measured (top_data.c), what is shown of it (top_text.c), how it is drawn (top_screen.c), and the loop (cmd_top.c).
 *
 * Owns: the rows of a view, each with its last counters and rates; they are matched from one turn to the next by their number.
 */
#ifndef UROCE_TOP_H
#define UROCE_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uroce.h"

enum {
	TOP_HISTORY = 24,   /**< rates kept of each row, for its sparkline */
	TOP_NAME_BYTES = 48,
	TOP_ROWS_MAX = 1 << 17, /**< rows that are looked at */
};

enum top_view { TOP_QP, TOP_SESSION, TOP_PORT, TOP_ENGINE, TOP_VIEWS };
extern const char *const top_views[TOP_VIEWS + 1];

/** What is shown of a row; the values are rates per second but for the last ones. What follows TOP_VALUES is text. */
enum top_value {
	TOP_TX_BPS, TOP_RX_BPS, TOP_SENDS, TOP_RECEIVES, TOP_PACKETS, TOP_LOSSES, TOP_RETRANSMITTED, TOP_RTT_US, TOP_CWND, TOP_IN_FLIGHT, TOP_LOAD, TOP_VALUES,
	TOP_STATE = TOP_VALUES, TOP_WAITS_FOR, TOP_PEER,
};

struct top_row {
	uint64_t number;
	char name[TOP_NAME_BYTES];    /**< program, port ... */
	char peer[TOP_NAME_BYTES];
	char state[8], waits_for[16];
	uint32_t uid;
	uint64_t counter[TOP_RETRANSMITTED + 1]; /**< of the values up to that one, when last seen */
	double value[TOP_VALUES];
	float history[TOP_HISTORY];   /**< of value[TOP_TX_BPS] + value[TOP_RX_BPS], the latest last */
	bool fresh;                   /**< seen for the first time: it has no rates yet */
};

struct top {
	enum top_view view;
	enum top_value sort;
	char filter[TOP_NAME_BYTES];  /**< rows whose text has it; "": all */
	struct top_row *rows;
	size_t n;
	uint64_t ns;                  /**< the daemon's time of the rows; 0: never */
	double seconds;               /**< between the last two turns */
	double fetch_ms;              /**< how long it took to get the rows */
};

/** Get the rows, and rates since the last call. @return false: a message is in @p err. */
bool top_update(struct top *t, char *err, size_t bytes);
/** Sort the rows by t->sort, the largest first. */
void top_sort(struct top *t);
/** Forget the rows. */
void top_clear(struct top *t);
/** @return whether the row is shown. */
bool top_shows(const struct top *t, const struct top_row *r);

/** A column of a view. */
struct top_column {
	const char *head, *name; /**< as shown; as --sort and JSON have it, NULL: text, which they don't have */
	enum top_value value;
	unsigned int views;      /**< bits 1 << enum top_view */
	unsigned int width;
	unsigned int rank;       /**< on a narrow terminal those of the lowest ranks are shown */
};
extern const struct top_column top_columns[];
extern const size_t top_nb_columns;

/** What has room on a line. */
struct top_layout {
	unsigned int number, program; /**< widths of what is in front */
	unsigned int history;         /**< bars behind that; 0: none */
	uint32_t columns;             /**< bit i: top_columns[i] */
};

/** Lay a line of @p width columns out, with @p bars of history, or a few, if there is room. */
void top_lay_out(const struct top *t, unsigned int width, unsigned int bars, struct top_layout *l);
/** Put a value of a row into text as shown. */
void top_text(const struct top_row *r, enum top_value v, char *text, size_t bytes);
/** Put a row into a line of text without its sparkline. */
void top_line(const struct top *t, const struct top_row *r, const struct top_layout *l, char *text, size_t bytes);
/** The heads of the columns of top_line(). */
void top_head(const struct top *t, const struct top_layout *l, char *text, size_t bytes);

/** Show on the terminal until the user ends it. @return the exit status. */
int top_screen(struct top *t);

#endif /* UROCE_TOP_H */
