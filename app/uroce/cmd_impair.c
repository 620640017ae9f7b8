/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce impair: ports that are a bad network on purpose. */
#include <string.h>

#include "uroce.h"

/* Change the ports of the daemon: all, or @p port. @return the exit status. */
static int
change(const char *settings, const char *port)
{
	json_object *names = port == NULL ? ask("/uroce/port") : json_object_new_array(), *o;
	int rc = names == NULL ? EXIT_FAILED : 0;

	if (port != NULL)
		json_object_array_add(names, json_object_new_string(port));
	for (size_t i = 0; rc == 0 && i < json_object_array_length(names); i++) {
		o = ask("/uroce/impair,%s,%s", json_object_get_string(json_object_array_get_idx(names, i)), settings);
		rc = o == NULL ? EXIT_FAILED : 0;
		json_object_put(o);
	}
	json_object_put(names);
	return rc;
}

/* A host of a lab: its configuration gets the settings, too, so that a reload keeps them. */
static int
change_lab(const char *settings)
{
	return cmd_lab(5, (char *[]){ (char[]){ "impair" }, (char[]){ "--name" }, (char *)(uintptr_t)target.lab, (char *)(uintptr_t)target.host,
				      (char *)(uintptr_t)settings, NULL });
}

int
cmd_impair(int argc, char **argv)
{
	static const char *const words[] = { "show", "set", "clear", NULL };
	const char *settings = "none";

	if (argc == 0 || strcmp(argv[0], "show") == 0) {
		if (argc > 2)
			return usage("impair show: one port at most");
		return show_impairments(argc == 2 ? argv[1] : NULL);
	}
	if (strcmp(argv[0], "set") == 0) {
		if (argc < 2 || argc > 3)
			return usage("impair set: give the settings in one word, for example loss=0.01,delay=100 (us), and a port if it isn't all");
		settings = argv[1];
		argc--;
		argv++;
	} else if (strcmp(argv[0], "clear") != 0) {
		return unknown_word("action of impair", argv[0], words);
	}
	if (argc > 2)
		return usage("impair clear: one port at most");
	if (target.lab != NULL && argc == 2)
		return usage("impair: a host of a lab has one port: don't name it");
	return target.lab != NULL ? change_lab(settings) : change(settings, argc == 2 ? argv[1] : NULL);
}
