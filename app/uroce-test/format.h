/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Answers: rows of named values, which come out as a table, as a list, or as JSON. Who makes them doesn't care.
 *
 * Columns appear in the order in which their names are first used; a row that lacks one has nothing there.
 *
 * Thread: one at a time per answer.
 */
#ifndef UROCE_TEST_FORMAT_H
#define UROCE_TEST_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum format_style {
	FORMAT_TABLE, /**< a line for each row, under the names */
	FORMAT_LIST,  /**< a line for each value, the name before it */
	FORMAT_JSON,  /**< an array of objects */
};

struct format;

/** @return never NULL: without memory the process ends. */
struct format *format_new(void);
/** Begin a row. Values go to the last one. */
void format_row(struct format *f);
void format_text(struct format *f, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void format_number(struct format *f, const char *name, uint64_t value);
/** Decimal in JSON, 0x... for people. */
void format_hex(struct format *f, const char *name, uint64_t value);
void format_real(struct format *f, const char *name, double value, unsigned int decimals);
void format_bool(struct format *f, const char *name, bool value);
/** Write it and free it. @p empty: what people read if there is no row. */
void format_end(struct format *f, enum format_style style, const char *empty, FILE *out);

/** Free it without writing. */
void format_free(struct format *f);

/** A number of bytes or operations in few digits: 12.3M. @return @p text, 16 bytes. */
char *format_short(double value, char *text);
/** Nanoseconds: 950 ns, 12.3 us, 4.56 ms. @return @p text, 16 bytes. */
char *format_time(uint64_t ns, char *text);

#endif /* UROCE_TEST_FORMAT_H */
