/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce top: the command line, and output for pipes. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "top.h"

enum { LINE_BYTES = 512, BATCH_FIRST_MS = 200 /* to the first rates */ };

static json_object *
row_to_json(const struct top *t, const struct top_row *r)
{
	json_object *o = json_object_new_object();

	json_object_object_add(o, "number", json_object_new_uint64(r->number));
	json_object_object_add(o, "name", json_object_new_string(r->name));
	if (t->view == TOP_QP || t->view == TOP_PORT)
		json_object_object_add(o, "state", json_object_new_string(r->state));
	if (t->view == TOP_QP) {
		json_object_object_add(o, "waits_for", json_object_new_string(r->waits_for));
		json_object_object_add(o, "peer", json_object_new_string(r->peer));
	}
	for (size_t i = 0; i < top_nb_columns; i++)
		if ((top_columns[i].views & 1u << t->view) != 0 && top_columns[i].name != NULL)
			json_object_object_add(o, top_columns[i].name, json_object_new_double(r->value[top_columns[i].value]));
	return o;
}

static int
print_json(const struct top *t)
{
	json_object *o = json_object_new_object(), *rows = json_object_new_array();
	int rc;

	for (size_t i = 0; i < t->n; i++)
		if (top_shows(t, &t->rows[i]))
			json_object_array_add(rows, row_to_json(t, &t->rows[i]));
	json_object_object_add(o, "view", json_object_new_string(top_views[t->view]));
	json_object_object_add(o, "seconds", json_object_new_double(t->seconds));
	json_object_object_add(o, "fetch_ms", json_object_new_double(t->fetch_ms));
	json_object_object_add(o, "rows", rows);
	rc = show_json(o);
	json_object_put(o);
	return rc;
}

static int
print_text(const struct top *t)
{
	struct top_layout all;
	char line[LINE_BYTES];

	top_lay_out(t, LINE_BYTES, 0, &all);
	top_head(t, &all, line, sizeof(line));
	puts(line);
	for (size_t i = 0; i < t->n; i++) {
		if (!top_shows(t, &t->rows[i]))
			continue;
		top_line(t, &t->rows[i], &all, line, sizeof(line));
		puts(line);
	}
	return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

static void
rest(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&t, NULL);
}

static int
batch(struct top *t)
{
	char err[256];
	int rc = 0;

	for (unsigned int n = 0; rc == 0 && (options.count == 0 || n <= options.count); n++) {
		if (!top_update(t, err, sizeof(err)))
			return err[0] != '\0' ? fail("%s", err) : EXIT_FAILED;
		/* The first look has no rates. */
		if (n > 0)
			rc = target.json ? print_json(t) : print_text(t);
		if (rc == 0 && (options.count == 0 || n < options.count))
			rest(n > 0 || options.count != 1 ? options.delay : BATCH_FIRST_MS / 1e3);
	}
	return rc;
}

/* @return 0 or EXIT_USAGE. */
static int
take_view(struct top *t)
{
	t->view = TOP_QP;
	if (options.view == NULL)
		return 0;
	while (top_views[t->view] != NULL && strcmp(top_views[t->view], options.view) != 0)
		t->view++;
	return t->view == TOP_VIEWS ? unknown_word("view", options.view, top_views) : 0;
}

static int
take_sort(struct top *t)
{
	const char *names[TOP_VALUES + 1] = { 0 };
	size_t n = 0;

	t->sort = t->view == TOP_ENGINE ? TOP_LOAD : TOP_TX_BPS;
	for (size_t i = 0; i < top_nb_columns; i++) {
		if ((top_columns[i].views & 1u << t->view) == 0 || top_columns[i].name == NULL)
			continue;
		names[n++] = top_columns[i].name;
		if (options.sort != NULL && strcmp(options.sort, top_columns[i].name) == 0) {
			t->sort = top_columns[i].value;
			return 0;
		}
	}
	return options.sort != NULL ? unknown_word("column", options.sort, names) : 0;
}

int
cmd_top(int argc, char **argv)
{
	static struct top t;
	int rc = take_view(&t);

	if (rc == 0)
		rc = take_sort(&t);
	if (rc == 0 && argc > 1)
		rc = usage("top: one text to filter by, not '%s' too", argv[1]);
	if (rc != 0)
		return rc;
	if (argc == 1)
		snprintf(t.filter, sizeof(t.filter), "%s", argv[0]);
	rc = options.batch || target.json ? batch(&t) : !isatty(STDOUT_FILENO) ? usage("top: this is no terminal; give --batch or --once") : top_screen(&t);
	top_clear(&t);
	return rc;
}
