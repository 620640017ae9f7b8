/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of the daemon as JSON objects: fetched page by page, filtered. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon.h"

enum { PAGES_MAX = 4096, COLUMNS_MAX = 64 };

/* Add the rows of one page. @return false: it isn't one. */
static bool
take_page(json_object *page, json_object *to)
{
	json_object *columns, *rows;
	size_t n;

	if (!json_object_object_get_ex(page, "columns", &columns) || !json_object_object_get_ex(page, "rows", &rows) ||
	    !json_object_is_type(columns, json_type_array) || !json_object_is_type(rows, json_type_array))
		return false;
	n = json_object_array_length(columns);
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		json_object *row = json_object_array_get_idx(rows, i), *o = json_object_new_object();

		if (!json_object_is_type(row, json_type_array) || json_object_array_length(row) != n)
			return false;
		for (size_t k = 0; k < n; k++)
			json_object_object_add(o, json_object_get_string(json_object_array_get_idx(columns, k)),
					       json_object_get(json_object_array_get_idx(row, k)));
		json_object_array_add(to, o);
	}
	return true;
}

json_object *
fetch_rows(const char *kind)
{
	json_object *all = json_object_new_array(), *page;
	uint64_t from = 0, before;

	for (unsigned int i = 0; i < PAGES_MAX; i++) {
		page = ask("/uroce/rows,%s,from=%lu", kind, (unsigned long)from);
		if (page == NULL)
			break;
		if (!take_page(page, all)) {
			fail("the daemon's answer can't be understood");
			json_object_put(page);
			break;
		}
		before = from;
		from = value_of(page, "next");
		json_object_put(page);
		if (from <= before)
			return all;
	}
	json_object_put(all);
	return NULL;
}

/* ---- Filters ---- */
/* @return whether the member has that value; `user` may also be a name. */
static bool
fits(json_object *row, const char *column, const char *value)
{
	uint64_t n;

	if (strcmp(column, "uid") == 0) {
		const struct passwd *p = getpwnam(value);

		if (p != NULL)
			return value_of(row, "uid") == p->pw_uid;
	}
	if (number_of(value, &n) && n == value_of(row, column) && text_of(row, column)[0] >= '0' && text_of(row, column)[0] <= '9')
		return true;
	return strcasecmp(text_of(row, column), value) == 0;
}

/* Words that people say for columns. */
static const char *
column_of(const char *word)
{
	static const char *const words[][2] = { { "user", "uid" }, { "port", "device" }, { "qpn", "number" }, { "key", "number" },
						{ "cqn", "number" }, { "pdn", "number" }, { "dev", "device" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i][0], word) == 0)
			return words[i][1];
	return word;
}

static int
check_column(json_object *rows, const char *word, const char *column)
{
	const char *names[COLUMNS_MAX + 4] = { "user", "port" };
	size_t n = 2;

	/* Without rows nothing has columns, and every filter leaves nothing. */
	if (json_object_array_length(rows) == 0 || json_object_object_get_ex(json_object_array_get_idx(rows, 0), column, NULL))
		return 0;
	json_object_object_foreach(json_object_array_get_idx(rows, 0), key, value)
	{
		(void)value;
		if (n < COLUMNS_MAX)
			names[n++] = key;
	}
	return unknown_word("filter", word, names);
}

int
filter_rows(json_object *rows, char **filters)
{
	for (; *filters != NULL; filters++) {
		const char *value = strchr(*filters, '='), *column;
		char word[64];
		int rc;

		if (value == NULL)
			return usage("'%s' is no filter: give COLUMN=VALUE, for example state=RTS", *filters);
		snprintf(word, sizeof(word), "%.*s", (int)(value - *filters), *filters);
		column = column_of(word);
		rc = check_column(rows, word, column);
		if (rc != 0)
			return rc;
		for (size_t i = json_object_array_length(rows); i-- > 0;)
			if (!fits(json_object_array_get_idx(rows, i), column, value + 1))
				json_object_array_del_idx(rows, i, 1);
	}
	return 0;
}
