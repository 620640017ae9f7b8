/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "../common/daemon.h"
#include "attach.h"
#include "command.h"

enum { WORDS_MAX = 8 };

static bool all_json;

/* The words behind a command: those that the user gave, in the order of its arguments. */
struct words {
	char *argv[WORDS_MAX + 1];
	int argc;
};

static void
add(struct words *w, const char *text)
{
	if (text != NULL && w->argc < WORDS_MAX)
		w->argv[w->argc++] = (char *)(uintptr_t)text;
}

/** Run a command of uroce(1). @return 0 or -1. */
static int
pass(const struct call *c, command_fn *run, const char *first, const char *second)
{
	struct words w = { 0 };

	add(&w, first);
	add(&w, second);
	for (unsigned int i = 0; i < c->nb_args; i++)
		if (c->args[i]->type != ARG_FLAG)
			add(&w, c->text[i]);
	target.json = all_json || (c->nb_args > 0 && strcmp(c->args[c->nb_args - 1]->name, "json") == 0 && call_has(c, "json"));
	return run(w.argc, w.argv) == 0 ? 0 : -1;
}

static int
show_port(struct call *c)
{
	return pass(c, cmd_link, NULL, NULL);
}

static int
show_objects(struct call *c)
{
	return pass(c, cmd_resource, "show", strchr(c->command->words, ' ') + 1);
}

/** All QPs; of one what it waits for. */
static int
show_qp(struct call *c)
{
	uint64_t n;

	if (call_has(c, "qp") && number_of(call_text(c, "qp"), &n))
		return pass(c, cmd_why, NULL, NULL);
	return show_objects(c);
}

static int
show_session(struct call *c)
{
	return pass(c, cmd_resource, "show", "ctx");
}

static int
show_object(struct call *c)
{
	return pass(c, cmd_resource, "show", NULL);
}

static int
show_stats(struct call *c)
{
	return pass(c, cmd_statistic, "show", NULL);
}

static int
show_engine(struct call *c)
{
	return pass(c, cmd_statistic, "show", "engine");
}

static int
show_cm(struct call *c)
{
	return pass(c, cmd_statistic, "show", "cm");
}

static int
show_impair(struct call *c)
{
	target.json = all_json || call_has(c, "json");
	return show_impairments(call_text(c, "port")) == 0 ? 0 : -1;
}

static int
capture(struct call *c)
{
	return pass(c, cmd_capture, strcmp(c->command->words, "show capture") == 0 ? "show" : strchr(c->command->words, ' ') + 1, NULL);
}

static const char *const stats_words[] = { "link", "engine", "qp", "cm", NULL };

#define JSON { .name = "json", .help = "answer in JSON", .type = ARG_FLAG }
#define TEXT(word, text, where) { .name = word, .help = text, .type = ARG_TEXT, .place = where }
#define FILTER(word) { .name = word, .help = "only rows with this value: COLUMN=VALUE", .type = ARG_TEXT, .place = ARG_OPTIONAL }
static const struct arg port_args[] = { TEXT("port", "which; all if left out", ARG_OPTIONAL), JSON, { 0 } };
static const struct arg qp_args[] = { TEXT("qp", "a QPN: what it waits for; or COLUMN=VALUE", ARG_OPTIONAL), FILTER("filter"), JSON, { 0 } };
static const struct arg row_args[] = { FILTER("filter"), FILTER("filter2"), JSON, { 0 } };
static const struct arg json_args[] = { JSON, { 0 } };
static const struct arg number_args[] = { TEXT("number", "which; all if left out", ARG_OPTIONAL), JSON, { 0 } };
static const struct arg stats_args[] = {
	{ "of", "what has counted", ARG_CHOICE, ARG_OPTIONAL, .words = stats_words },
	TEXT("number", "which; all if left out", ARG_OPTIONAL),
	JSON,
	{ 0 },
};
static const struct arg start_args[] = {
	TEXT("file", "where the packets go, as the daemon sees it", ARG_NEEDED),
	TEXT("what", "port=NAME, qp=N or snap=BYTES", ARG_OPTIONAL),
	TEXT("what2", "another of these", ARG_OPTIONAL),
	{ 0 },
};
static const struct command table[] = {
	{ "show port", "Ports: state, addresses, MTU, rates, driver.", port_args, NULL, show_port },
	{ "show qp", "QPs; of one, in words, what it does and what it waits for.", qp_args, NULL, show_qp },
	{ "show cq", "Completion queues.", row_args, NULL, show_objects },
	{ "show mr", "Memory regions.", row_args, NULL, show_objects },
	{ "show pd", "Protection domains.", row_args, NULL, show_objects },
	{ "show srq", "Shared receive queues.", row_args, NULL, show_objects },
	{ "show cm_id", "Ids of rdma_cm.", row_args, NULL, show_objects },
	{ "show session", "Programs that use the daemon.", row_args, NULL, show_session },
	{ "show object", "How many objects there are of each kind.", json_args, NULL, show_object },
	{ "show stats", "Counters that aren't zero.", stats_args, NULL, show_stats },
	{ "show engine", "Counters of engines.", number_args, NULL, show_engine },
	{ "show cm", "Counters of the connection manager.", json_args, NULL, show_cm },
	{ "show impair", "Ports that are a bad network on purpose.", port_args, NULL, show_impair },
	{ "show capture", "What is being captured.", json_args, NULL, capture },
	{ "capture start", "Write packets into a pcapng file.", start_args, NULL, capture },
	{ "capture stop", "End the capture.", NULL, NULL, capture },
	{ 0 },
};

int
attach_begin(const char *socket, bool json)
{
	json_object *ports;

	target.program = "uroce-test";
	target.where = "--attach=SOCKET";
	target.hint = "`help` lists the commands";
	target.socket = socket[0] != '\0' ? socket : NULL;
	all_json = json;
	command_only("help exit quit sleep");
	command_add(table);
	ports = ask("/uroce/port");
	json_object_put(ports);
	return ports != NULL ? 0 : -1;
}

void
attach_banner(void)
{
	printf("uroce-test " UROCE_VERSION ": attached to the daemon at %s.\n", socket_path());
	target.json = false;
	cmd_link(0, (char *[]){ NULL });
	puts("Try: show session                 programs that use it\n"
	     "     show qp, show qp QPN         their QPs, and what one of them waits for\n"
	     "     help                         all commands; Tab completes, ? lists what may come next, `exit` ends");
}
