/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce: the table of commands, and options. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uroce.h"

struct options options = { .delay = 1 };

static const struct command {
	const char *name, *args, *help;
	command_fn *run;
	unsigned int takes;
} commands[] = {
	{ "link", "[show] [PORT]", "ports: state, addresses, MTU, rates, driver", cmd_link, 0 },
	{ "resource", "[show] [KIND [COLUMN=VALUE...]]", "counts of objects; or QPs, CQs, MRs ... (KIND: ctx qp cq mr pd srq cm_id)", cmd_resource, 0 },
	{ "statistic", "[show] [link | engine | qp [N] | ctx [N] | cm]", "counters", cmd_statistic, 0 },
	{ "why", "QP", "what a QP is doing and what it waits for, in words", cmd_why, 0 },
	{ "top", "[TEXT]", "QPs, sessions, ports and engines by rate, live; only rows with TEXT", cmd_top, TAKES_TOP },
	{ "capture", "[show | start FILE [port=NAME] [qp=N] [snap=BYTES] | stop]", "packets into a pcapng file", cmd_capture, 0 },
	{ "impair", "[show [PORT]] | set SETTINGS [PORT] | clear [PORT]", "ports that are a bad network on purpose", cmd_impair, 0 },
	{ "move", "[show | QP ENGINE]", "QPs from one engine to another while they are in use", cmd_move, 0 },
	{ "doctor", "[--peer ADDRESS]", "what may be wrong on this machine, with remedies", cmd_doctor, TAKES_PEER },
	{ "setup", "IFACE", "a configuration for an interface (--peer ADDRESS, --write FILE)", cmd_setup, TAKES_PEER | TAKES_WRITE },
	{ "run", "PROGRAM [ARGUMENT...]", "run a verbs program: uroce-run(1)", cmd_run, 0 },
	{ "lab", "COMMAND ...", "test networks on this machine: uroce-lab(1)", cmd_lab, 0 },
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]), WORDS_MAX = 72 };

static void
print_help(void)
{
	printf("usage: uroce [OPTION...] COMMAND [ARGUMENT...]\n\n"
	       "Shows a running uroced and controls it.\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %s %s\n        %s\n", commands[i].name, commands[i].args, commands[i].help);
	printf("\nOptions of all commands:\n"
	       "  -s, --socket PATH    the daemon's socket (default: $UROCE_SOCKET, else /run/uroce/uroced.sock)\n"
	       "  -l, --lab NAME HOST  the daemon of a host of a lab\n"
	       "  -j, --json           JSON (docs/schemas)\n"
	       "  -p, --pretty         the same, with line breaks\n"
	       "  -h, --help           this text; after a command, that of the command\n"
	       "  -V, --version        the version\n"
	       "\nOptions of top:\n"
	       "  -b, --batch          as text for pipes, not on the terminal\n"
	       "      --once           the same, one screen\n"
	       "  -d, --delay SECONDS  time between two screens (default: 1)\n"
	       "  -n, --count N        end after N screens\n"
	       "      --sort COLUMN    sort by it, the largest first\n"
	       "      --view VIEW      qp, session, port or engine\n"
	       "\nOptions of setup and doctor:\n"
	       "      --peer ADDRESS   the other host, to look at the path to it\n"
	       "      --write FILE     setup: write the configuration there\n"
	       "\nThe exit status is 0, 1 if something failed (or the doctor found a fault), 2 for a wrong command line.\n");
}

/* ---- The command line ---- */
enum { OPT_ONCE = 256, OPT_SORT, OPT_VIEW, OPT_PEER, OPT_WRITE };
static const struct option longs[] = {
	{ "socket", required_argument, NULL, 's' }, { "lab", required_argument, NULL, 'l' },   { "json", no_argument, NULL, 'j' },
	{ "pretty", no_argument, NULL, 'p' },	     { "help", no_argument, NULL, 'h' },	{ "version", no_argument, NULL, 'V' },
	{ "batch", no_argument, NULL, 'b' },	     { "once", no_argument, NULL, OPT_ONCE },	{ "delay", required_argument, NULL, 'd' },
	{ "count", required_argument, NULL, 'n' },  { "sort", required_argument, NULL, OPT_SORT }, { "view", required_argument, NULL, OPT_VIEW },
	{ "peer", required_argument, NULL, OPT_PEER }, { "write", required_argument, NULL, OPT_WRITE }, { NULL, 0, NULL, 0 },
};
static unsigned int taken;  /* TAKES_* of the options given */
static bool help;

/* @return 0 or EXIT_USAGE. */
static int
take_delay(const char *text)
{
	char *end;

	options.delay = strtod(text, &end);
	if (*end == '\0' && options.delay >= 0.1 && options.delay <= 3600)
		return 0;
	return usage("--delay %s: give seconds from 0.1 to 3600", text);
}

static int
take_count(const char *text)
{
	uint64_t n;

	if (!number_of(text, &n) || n == 0 || n > UINT32_MAX)
		return usage("--count %s: give a number from 1 on", text);
	options.count = (unsigned int)n;
	return 0;
}

/* An option of top or setup. */
static int
take_special(int opt)
{
	taken |= opt == OPT_PEER ? TAKES_PEER : opt == OPT_WRITE ? TAKES_WRITE : TAKES_TOP;
	switch (opt) {
	case OPT_ONCE:
		options.count = 1;
		/* fallthrough */
	case 'b':
		options.batch = true;
		return 0;
	case 'd':
		return take_delay(optarg);
	case 'n':
		return take_count(optarg);
	case OPT_SORT:
		options.sort = optarg;
		return 0;
	case OPT_VIEW:
		options.view = optarg;
		return 0;
	case OPT_PEER:
		options.peer = optarg;
		return 0;
	default:
		options.write = optarg;
		return 0;
	}
}

/* Read options up to the first word, or with @p permute all of them. @return 0; EXIT_USAGE; -1: done. */
static int
take_options(int argc, char **argv, bool permute)
{
	int opt, rc = 0;

	optind = 0;
	while (rc == 0 && (opt = getopt_long(argc, argv, permute ? ":s:l:jphVbd:n:" : "+:s:l:jphVbd:n:", longs, NULL)) >= 0) {
		switch (opt) {
		case 's':
			target.socket = optarg;
			break;
		case 'l':
			if (optind >= argc || argv[optind][0] == '-')
				return usage("--lab %s: a host of the lab must follow: --lab NAME HOST", optarg);
			target.lab = optarg;
			target.host = argv[optind++];
			break;
		case 'p':
			target.pretty = true;
			/* fallthrough */
		case 'j':
			target.json = true;
			break;
		case 'h':
			help = true;
			break;
		case 'V':
			puts("uroce " UROCE_VERSION);
			return -1;
		case ':':
			return usage("%s: an argument must follow", argv[optind - 1]);
		case '?':
			return usage("no option %s", argv[optind - 1]);
		default:
			rc = take_special(opt);
		}
	}
	return rc;
}

static const struct command *
find(const char *name)
{
	const char *names[COMMANDS + 1] = { 0 };

	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
		names[i] = commands[i].name;
	}
	unknown_word("command", name, names);
	return NULL;
}

static int
run(const struct command *c, int argc, char **argv)
{
	int rc;

	/* What follows is for others. */
	if (c->run == cmd_run || c->run == cmd_lab)
		return c->run(argc - 1, argv + 1);
	rc = take_options(argc, argv, true);
	if (rc != 0)
		return rc < 0 ? 0 : rc;
	if (help) {
		printf("usage: uroce [OPTION...] %s %s\n\n%s\n", c->name, c->args, c->help);
		return 0;
	}
	if ((taken & ~c->takes) != 0)
		return usage("%s doesn't take %s", c->name,
			     taken & TAKES_TOP & ~c->takes ? "options of top" : taken & TAKES_PEER & ~c->takes ? "--peer" : "--write");
	if (target.socket != NULL && target.lab != NULL)
		return usage("give --socket or --lab, not both");
	return c->run(argc - optind, argv + optind);
}

int
main(int argc, char **argv)
{
	const struct command *c;
	char *words[WORDS_MAX + 1] = { 0 };
	int rc = take_options(argc, argv, false), n = 0;

	if (rc != 0)
		return rc < 0 ? 0 : rc;
	if (optind == argc) {
		if (!help)
			return usage("a command must be given");
		print_help();
		return 0;
	}
	if (strcmp(argv[optind], "help") == 0) {
		print_help();
		return 0;
	}
	c = find(argv[optind]);
	if (c == NULL)
		return EXIT_USAGE;
	if (c->run == cmd_run || c->run == cmd_lab)
		return run(c, argc - optind, argv + optind);
	if (argc - optind > WORDS_MAX)
		return usage("too many words");
	while (optind + n < argc) {
		words[n] = argv[optind + n];
		n++;
	}
	return run(c, n, words);
}
