/* SPDX-License-Identifier: BSD-3-Clause */
/* What a QP waits for, captures, impairments: what the daemon answers is passed on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"

/* ---- why ---- */
static int
print_why(json_object *qp)
{
	char *why = joined(qp, "why", "\n"), *events = joined(qp, "events", "\n  ");

	printf("QP %s, %s, %s, of %s (pid %s) on %s", text_of(qp, "qpn"), text_of(qp, "type"), text_of(qp, "state"), text_of(qp, "program"),
	       text_of(qp, "pid"), text_of(qp, "device"));
	if (text_of(qp, "peer")[0] != '\0')
		printf(", to QP %s of %s", text_of(qp, "dest_qpn"), text_of(qp, "peer"));
	printf("\n%s\n", why != NULL ? why : "");
	if (events != NULL && events[0] != '\0')
		printf("What happened to it:\n  %s\n", events);
	free(why);
	free(events);
	return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

int
cmd_why(int argc, char **argv)
{
	json_object *qp;
	uint64_t n;
	int rc;

	if (argc != 1 || !number_of(argv[0], &n))
		return usage("why: give the number of a QP; `uroce resource show qp` lists them");
	qp = ask("/uroce/qp,%lu", (unsigned long)n);
	if (qp == NULL)
		return EXIT_FAILED;
	rc = target.json ? show_json(qp) : print_why(qp);
	json_object_put(qp);
	return rc;
}

/* Print a dictionary, a line for each member. */
static int
print_members(json_object *o)
{
	if (o == NULL)
		return EXIT_FAILED;
	if (target.json)
		return show_json(o);
	json_object_object_foreach(o, key, value)
	{
		char *text = joined(o, key, ",");

		(void)value;
		printf("%-15s %s\n", key, text != NULL ? text : "");
		free(text);
	}
	return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

/* ---- capture ---- */
/* Make the command that begins a capture: the daemon has another current folder. @return 0, or an exit status with a message printed. */
static int
start_command(int argc, char **argv, char *command, size_t bytes)
{
	char folder[PATH_BYTES / 2] = "";
	size_t n;

	if (argc == 0 || argv[0][0] == '\0')
		return usage("capture start: give a file");
	if (argv[0][0] != '/' && getcwd(folder, sizeof(folder)) == NULL)
		return fail("the current folder has no name, or too long a one; give the whole path of the file");
	if (strchr(argv[0], ',') != NULL || strchr(folder, ',') != NULL)
		return usage("capture start: the path must have no commas");
	n = (size_t)snprintf(command, bytes, "/uroce/capture,start,%s%s%s", folder, folder[0] != '\0' ? "/" : "", argv[0]);
	for (int i = 1; i < argc && n < bytes; i++)
		n += (size_t)snprintf(command + n, bytes - n, ",%s", argv[i]);
	return n < bytes ? 0 : usage("capture start: the path is too long");
}

int
cmd_capture(int argc, char **argv)
{
	static const char *const words[] = { "show", "start", "stop", NULL };
	const char *what = argc > 0 ? argv[0] : "show";
	char command[COMMAND_BYTES] = "/uroce/capture";
	json_object *o;
	int rc = 0;

	if (strcmp(what, "start") == 0)
		rc = start_command(argc - 1, argv + 1, command, sizeof(command));
	else if (strcmp(what, "stop") == 0)
		strcat(command, ",stop");
	else if (strcmp(what, "show") != 0)
		return unknown_word("action of capture", what, words);
	if (rc == 0 && argc > 1 && strcmp(what, "start") != 0)
		return usage("capture %s: nothing follows it", what);
	if (rc != 0)
		return rc;
	o = ask("%s", command);
	rc = print_members(o);
	json_object_put(o);
	return rc;
}

/* ---- impair ---- */
int
show_impairments(const char *port)
{
	json_object *names = port != NULL ? json_object_new_array() : ask("/uroce/impair"), *out = json_object_new_object(), *one;
	int rc = names == NULL ? EXIT_FAILED : 0;

	if (port != NULL)
		json_object_array_add(names, json_object_new_string(port));
	for (size_t i = 0; rc == 0 && i < json_object_array_length(names); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(names, i));

		one = ask("/uroce/impair,%s", name);
		if (one == NULL) {
			rc = EXIT_FAILED;
			break;
		}
		json_object_object_add(out, name, one);
		if (!target.json) {
			printf("%s%s:\n", i > 0 ? "\n" : "", name);
			print_members(one);
		}
	}
	if (rc == 0 && target.json)
		rc = show_json(out);
	else if (rc == 0 && json_object_array_length(names) == 0)
		puts("no port is impaired");
	json_object_put(names);
	json_object_put(out);
	return rc;
}

/* ---- move ---- */
int
show_moves(const char *qpn, const char *engine)
{
	json_object *o = qpn == NULL ? ask("/uroce/move") : ask("/uroce/move,%s,%s", qpn, engine);
	int rc = print_members(o);

	json_object_put(o);
	return rc;
}
