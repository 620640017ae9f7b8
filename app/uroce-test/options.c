/* SPDX-License-Identifier: BSD-3-Clause */
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

enum {
	EAL_ARGS_MAX = 16,
	EAL_ARG_BYTES = 64,
	EAL_MEGABYTES = 64, /* and these for each host and engine */
	EAL_MEGABYTES_PER_HOST = 64,
	EAL_MEGABYTES_PER_ENGINE = 64,
	DEFAULT_HOSTS = 2,
	PERIOD_MAX = 86400,
};

static const char help[] =
	"usage: uroce-test [options]\n"
	"       uroce-test EAL-options -- [options]\n"
	"\n"
	"Hosts, each a whole uroce stack in this process:\n"
	"  --loopback[=N]          N hosts (2) joined by wires of our own; the default\n"
	"  --config FILE           a host as a configuration of uroced says; once for each host\n"
	"  --port ETHDEV,ADDR/LEN[,ADDR/LEN...]  a host with one port; once for each host\n"
	"  --set SECTION.KEY=VALUE a key of every host's configuration, as uroced's --set\n"
	"  --engines N             engines of each host (1)\n"
	"\n"
	"Or, instead of hosts, a daemon that runs already:\n"
	"  --attach[=SOCKET]       show it (UROCE_SOCKET, or /run/uroce/uroced.sock), as uroce(1) does\n"
	"\n"
	"Commands:\n"
	"  -c, --command COMMAND   run COMMAND, then end; may be given several times\n"
	"  --json                  answers in JSON; all else goes to standard error\n"
	"  --echo                  print each command before its answer\n"
	"  --cmdline-file FILE     run the commands of FILE first\n"
	"  --auto-start 'WORKLOAD [options]'  start a workload, as `start` does\n"
	"  --stats-period SECONDS  say every so often how workloads do\n"
	"\n"
	"  --help, --version       say this, or the version\n"
	"\n"
	"Then, without -c, commands are read from standard input; `help` lists them.\n"
	"\n"
	"Without EAL options: one lcore for all engines, no hugepages, no devices but our own.\n"
	"The status is 0, 1 if a command or a workload failed, 2 if the command line was wrong.\n";

static int
wrong(int *status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int
wrong(int *status, const char *fmt, ...)
{
	va_list ap;

	fputs("uroce-test: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("; --help tells what there is\n", stderr);
	*status = EXIT_USAGE;
	return -1;
}

/** @return false if @p text isn't a number in the range. */
static bool
number(const char *text, unsigned int min, unsigned int max, unsigned int *out)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '\0' || v < min || v > max)
		return false;
	*out = (unsigned int)v;
	return true;
}

static bool
keep(const char **list, unsigned int *n, const char *text)
{
	if (*n == OPTIONS_MAX)
		return false;
	list[(*n)++] = text;
	return true;
}

enum option_name { OPT_HELP = 256, OPT_VERSION, OPT_LOOPBACK, OPT_CONFIG, OPT_PORT, OPT_SET, OPT_ENGINES, OPT_FILE, OPT_AUTO,
		   OPT_PERIOD, OPT_JSON, OPT_ECHO, OPT_ATTACH, OPT_COMMAND = 'c' };
static const struct option names[] = {
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "loopback", optional_argument, NULL, OPT_LOOPBACK },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "set", required_argument, NULL, OPT_SET },
	{ "engines", required_argument, NULL, OPT_ENGINES },
	{ "cmdline-file", required_argument, NULL, OPT_FILE },
	{ "command", required_argument, NULL, OPT_COMMAND },
	{ "attach", optional_argument, NULL, OPT_ATTACH },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "echo", no_argument, NULL, OPT_ECHO },
	{ "auto-start", required_argument, NULL, OPT_AUTO },
	{ "stats-period", required_argument, NULL, OPT_PERIOD },
	{ NULL, 0, NULL, 0 },
};

/**
 * Parse one option.
 * @return 0; -1: exit with *@p status.
 */
static int
take(int opt, struct options *o, int *status)
{
	bool kept = true;

	switch (opt) {
	case OPT_HELP:
		fputs(help, stdout);
		*status = EXIT_SUCCESS;
		return -1;
	case OPT_VERSION:
		puts("uroce-test " UROCE_VERSION);
		*status = EXIT_SUCCESS;
		return -1;
	case OPT_LOOPBACK:
		o->loopback = DEFAULT_HOSTS;
		if (optarg != NULL && !number(optarg, 1, OPTIONS_MAX_LOOPBACK, &o->loopback))
			return wrong(status, "--loopback=%s: the number of hosts must be 1 to %d", optarg, OPTIONS_MAX_LOOPBACK);
		break;
	case OPT_ENGINES:
		if (!number(optarg, 1, OPTIONS_MAX_ENGINES, &o->engines))
			return wrong(status, "--engines %s: must be 1 to %d", optarg, OPTIONS_MAX_ENGINES);
		break;
	case OPT_PERIOD:
		if (!number(optarg, 0, PERIOD_MAX, &o->stats_period))
			return wrong(status, "--stats-period %s: must be 0 to %d seconds", optarg, PERIOD_MAX);
		break;
	case OPT_CONFIG:
		kept = keep(o->configs, &o->nb_configs, optarg);
		break;
	case OPT_PORT:
		if (strchr(optarg, ',') == NULL)
			return wrong(status, "--port %s: expected ETHDEV,ADDRESS/PREFIX, as net_memif0,198.18.0.1/24", optarg);
		kept = keep(o->ports, &o->nb_ports, optarg);
		break;
	case OPT_SET:
		kept = keep(o->sets, &o->nb_sets, optarg);
		break;
	case OPT_FILE:
		kept = keep(o->files, &o->nb_files, optarg);
		break;
	case OPT_COMMAND:
		kept = keep(o->commands, &o->nb_commands, optarg);
		break;
	case OPT_ATTACH:
		o->attach = optarg != NULL ? optarg : "";
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_ECHO:
		o->echo = true;
		break;
	case OPT_AUTO:
		kept = keep(o->auto_start, &o->nb_auto_start, optarg);
		break;
	default:
		*status = EXIT_USAGE;
		fputs("uroce-test: --help tells what there is\n", stderr);
		return -1;
	}
	return kept ? 0 : wrong(status, "an option was given more than %d times", OPTIONS_MAX);
}

/** @return true if @p arg is one of our options, with "=VALUE" or without. */
static bool
is_ours(const char *arg)
{
	if (strncmp(arg, "--", 2) != 0)
		return false;
	for (const struct option *n = names; n->name != NULL; n++) {
		size_t length = strlen(n->name);

		if (strncmp(arg + 2, n->name, length) == 0 && (arg[2 + length] == '\0' || arg[2 + length] == '='))
			return true;
	}
	return false;
}

/** @return true if the line begins with our -c: that of EAL has a hexadecimal mask of cores behind it. */
static bool
is_command(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "-c") != 0)
		return false;
	return argv[2][0] == '\0' || argv[2][strspn(argv[2], "0123456789abcdefABCDEFxX")] != '\0';
}

/* ---- EAL's options, if the user gives none ---- */
static char eal_text[EAL_ARGS_MAX][EAL_ARG_BYTES];
static char *eal_argv[EAL_ARGS_MAX + 1];

static void eal_add(struct options *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
eal_add(struct options *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(eal_text[o->eal_argc], EAL_ARG_BYTES, fmt, ap);
	va_end(ap);
	eal_argv[o->eal_argc] = eal_text[o->eal_argc];
	o->eal_argc++;
}

/** @return the last CPU that this process may use; the first is usually the busiest. */
static int
last_cpu(void)
{
	cpu_set_t set;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set))
				cpu = i;
	return cpu;
}

static void
eal_defaults(struct options *o)
{
	unsigned int hosts = o->loopback > 0 ? o->loopback : o->nb_configs + o->nb_ports;
	int cpu = last_cpu();

	o->eal_argc = 0;
	o->eal_argv = eal_argv;
	eal_add(o, "uroce-test");
	eal_add(o, "--lcores=0@0-%d,1@%d", cpu, cpu);
	eal_add(o, "--no-pci");
	eal_add(o, "--no-huge");
	eal_add(o, "--no-telemetry");
	eal_add(o, "-m");
	eal_add(o, "%u", EAL_MEGABYTES + hosts * (EAL_MEGABYTES_PER_HOST + o->engines * EAL_MEGABYTES_PER_ENGINE));
	eal_add(o, "--file-prefix=uroce-test-%d", (int)getpid());
	eal_add(o, "--log-level=lib.eal:warning");
	eal_add(o, "--log-level=uroce.*:warning");
}

int
options_parse(int argc, char **argv, struct options *o, int *status)
{
	int sep, opt;
	bool all_ours;

	for (sep = 1; sep < argc && strcmp(argv[sep], "--") != 0; sep++)
		;
	/* Whoever gives EAL no options needs no -- before ours. */
	all_ours = sep == argc && argc > 1 && (is_ours(argv[1]) || is_command(argc, argv));
	*o = (struct options){ .eal_argc = sep, .eal_argv = argv, .engines = 1 };
	/* --help and --version are answered before EAL parses anything. */
	for (int i = 1; !all_ours && i < sep; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0)
			return take(argv[i][2] == 'h' ? OPT_HELP : OPT_VERSION, o, status);
		if (!all_ours && is_ours(argv[i]))
			return wrong(status, "%s must stand behind a -- that ends EAL's options", argv[i]);
	}
	if (sep < argc) {
		argv[sep] = argv[0];
		argc -= sep;
		argv += sep;
	} else if (all_ours) {
		o->eal_argc = 1;
	} else {
		argc = 1;
	}
	optind = 1;
	while ((opt = getopt_long(argc, argv, "c:", names, NULL)) != -1)
		if (take(opt, o, status) != 0)
			return -1;
	/* The socket may stand behind it as a word of its own. */
	if (o->attach != NULL && o->attach[0] == '\0' && optind + 1 == argc)
		o->attach = argv[optind++];
	if (optind < argc)
		return wrong(status, "'%s': options begin with --", argv[optind]);
	if (o->loopback > 0 && o->nb_configs + o->nb_ports > 0)
		return wrong(status, "--loopback makes its own hosts: give either it or --config and --port");
	if (o->attach != NULL && (o->loopback > 0 || o->nb_configs + o->nb_ports + o->nb_auto_start + o->nb_sets > 0 || o->eal_argc > 1))
		return wrong(status, "--attach shows a daemon: it has no hosts, workloads or options of EAL");
	if (o->nb_configs + o->nb_ports == 0 && o->loopback == 0)
		o->loopback = DEFAULT_HOSTS;
	if (o->eal_argc == 1)
		eal_defaults(o);
	return 0;
}
