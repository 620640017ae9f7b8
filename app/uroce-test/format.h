/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Output of commands: rows of named values, which are printed as a table, a list, or JSON. The code that adds them
 * needn't know which.
 *
 * Columns appear in the order in which their names are first used. A row may lack some of them.
 *
 * Thread: any, but only one at a time for each struct format.
 */
#ifndef UROCE_TEST_FORMAT_H
#define UROCE_TEST_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum format_style {
	FORMAT_TABLE, /**< a line for each row, below the names */
	FORMAT_LIST,  /**< a line for each value, after its name */
	FORMAT_JSON,  /**< an array of objects */
};

struct format;

/** @return never NULL: if there is no memory the process ends. */
struct format *format_new(void);
/** Begin a row; values are added to the last one. */
void format_row(struct format *f);
void format_text(struct format *f, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void format_number(struct format *f, const char *name, uint64_t value);
/** Decimal in JSON, else 0x... */
void format_hex(struct format *f, const char *name, uint64_t value);
void format_real(struct format *f, const char *name, double value, unsigned int decimals);
void format_bool(struct format *f, const char *name, bool value);
/**
 * Print and free @p f.
 * @param empty  Printed, except in JSON, if there are no rows.
 */
void format_end(struct format *f, enum format_style style, const char *empty, FILE *out);

/** Free it without printing. */
void format_free(struct format *f);

/**
 * Write a number of bytes or operations with few digits: 12.3M.
 * @return @p text, 16 bytes.
 */
char *format_short(double value, char *text);
/**
 * Write a time in ns: 950 ns, 12.3 us, 4.56 ms.
 * @return @p text, 16 bytes.
 */
char *format_time(uint64_t ns, char *text);

#endif /* UROCE_TEST_FORMAT_H */
