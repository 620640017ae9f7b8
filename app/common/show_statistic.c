/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters. */
#include <stdio.h>
#include <string.h>

#include "daemon.h"

static const struct column columns[] = {
	{ "OBJECT", "object", false }, { "COUNTER", "counter", false }, { "VALUE", "value", true }, { NULL, NULL, false },
};

/* Add the counters of @p from, with the names of the dictionaries that they are in. */
static void
flatten(json_object *out, const char *object, const char *prefix, json_object *from)
{
	json_object_object_foreach(from, key, value)
	{
		char name[128];
		json_object *o;

		snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
		if (json_object_is_type(value, json_type_object)) {
			flatten(out, object, name, value);
			continue;
		}
		if (!json_object_is_type(value, json_type_int))
			continue;
		/* Hundreds of counters are 0. */
		if (!target.json && json_object_get_uint64(value) == 0)
			continue;
		o = json_object_new_object();
		json_object_object_add(o, "object", json_object_new_string(object));
		json_object_object_add(o, "counter", json_object_new_string(name));
		json_object_object_add(o, "value", json_object_get(value));
		json_object_array_add(out, o);
	}
}

/* Add the answer to a command. @return false: there is none. */
static bool
add(json_object *out, const char *object, const char *command)
{
	json_object *o = ask("%s", command);

	if (o == NULL)
		return false;
	flatten(out, object, "", o);
	json_object_put(o);
	return true;
}

/* Add all ports, or all engines. */
static bool
add_each(json_object *out, const char *what, const char *only)
{
	json_object *names = only == NULL ? ask("/uroce/%s", what) : json_object_new_array(), *list = names;
	char command[COMMAND_BYTES], object[64];
	bool good = names != NULL;

	if (only != NULL)
		json_object_array_add(names, json_object_new_string(only));
	/* Engines are numbers in a dictionary. */
	if (json_object_is_type(names, json_type_object))
		json_object_object_get_ex(names, "numbers", &list);
	for (size_t i = 0; good && json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(list, i));

		snprintf(command, sizeof(command), "/uroce/%s,%s", what, name);
		snprintf(object, sizeof(object), "%s%s", strcmp(what, "engine") == 0 ? "engine" : "", name);
		good = add(out, object, command);
	}
	json_object_put(names);
	return good;
}

static bool
add_qps(json_object *out)
{
	json_object *rows = fetch_rows("qp");
	char object[32];

	for (size_t i = 0; rows != NULL && i < json_object_array_length(rows); i++) {
		json_object *o = json_object_array_get_idx(rows, i);
		static const char *const names[] = { "sends", "receives", "tx_bytes", "tx_packets", "rx_bytes", "losses", "retransmitted" };
		json_object *few = json_object_new_object();

		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			json_object_object_add(few, names[k], json_object_new_uint64(value_of(o, names[k])));
		snprintf(object, sizeof(object), "qp%lu", (unsigned long)value_of(o, "number"));
		flatten(out, object, "", few);
		json_object_put(few);
	}
	json_object_put(rows);
	return rows != NULL;
}

/* Add a session, whose row is called ctx. */
static bool
add_session(json_object *out, uint64_t number)
{
	char command[COMMAND_BYTES], object[32];

	snprintf(command, sizeof(command), "/uroce/session,%lu", (unsigned long)number);
	snprintf(object, sizeof(object), "ctx%lu", (unsigned long)number);
	return add(out, object, command);
}

static bool
add_sessions(json_object *out)
{
	json_object *rows = fetch_rows("session");
	bool good = rows != NULL;

	for (size_t i = 0; good && i < json_object_array_length(rows); i++)
		good = add_session(out, value_of(json_object_array_get_idx(rows, i), "number"));
	json_object_put(rows);
	return good;
}

/* Add what the words ask for. @return 0 or an exit status. */
static int
gather(json_object *out, int argc, char **argv)
{
	static const char *const kinds[] = { "link", "engine", "qp", "ctx", "cm", NULL };
	const char *what = argc > 0 ? argv[0] : NULL, *which = argc > 1 ? argv[1] : NULL;
	char command[COMMAND_BYTES], object[64];
	uint64_t n;

	if (argc > 2)
		return usage("statistic: too many words, from '%s' on", argv[2]);
	if (what == NULL)
		return add_each(out, "port", NULL) && add_each(out, "engine", NULL) && add(out, "cm", "/uroce/cm") ? 0 : EXIT_FAILED;
	if (strcmp(what, "link") == 0)
		return add_each(out, "port", which) ? 0 : EXIT_FAILED;
	if (strcmp(what, "cm") == 0 && which == NULL)
		return add(out, "cm", "/uroce/cm") ? 0 : EXIT_FAILED;
	if (which != NULL && !number_of(which, &n) && (strcmp(what, "engine") == 0 || strcmp(what, "qp") == 0 || strcmp(what, "ctx") == 0))
		return usage("statistic %s %s: give a number", what, which);
	if (strcmp(what, "engine") == 0)
		return add_each(out, "engine", which) ? 0 : EXIT_FAILED;
	if (strcmp(what, "ctx") == 0)
		return (which != NULL ? add_session(out, n) : add_sessions(out)) ? 0 : EXIT_FAILED;
	if (strcmp(what, "qp") != 0)
		return unknown_word("object of statistics", what, kinds);
	if (which == NULL)
		return add_qps(out) ? 0 : EXIT_FAILED;
	snprintf(command, sizeof(command), "/uroce/qp,%lu", (unsigned long)n);
	snprintf(object, sizeof(object), "qp%lu", (unsigned long)n);
	return add(out, object, command) ? 0 : EXIT_FAILED;
}

int
cmd_statistic(int argc, char **argv)
{
	json_object *out = json_object_new_array();
	int rc;

	if (argc > 0 && strcmp(argv[0], "show") == 0) {
		argc--;
		argv++;
	}
	rc = gather(out, argc, argv);
	if (rc == 0)
		rc = show(out, columns);
	json_object_put(out);
	return rc;
}
