/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static const char usage[] =
	"Usage: uroced [EAL options] -- [options]\n"
	"\n"
	"The uroce daemon: RoCE v2 on the Ethernet ports that DPDK drives, for verbs programs on this machine.\n"
	"\n"
	"  --config FILE             read the configuration (see uroced.conf for all keys). Each further --config begins another\n"
	"                            host in this process: a socket, ports and memory of its own, on the same cores. What is\n"
	"                            set by --set and --socket belongs to the --config before\n"
	"  --set 'SECTION.KEY=VALUE' set a key, over the file; any number of times\n"
	"  --socket PATH             the same as --set daemon.socket=PATH\n"
	"  --one-engine              the lcores, each on a CPU of its own, take turns at running one engine: for machines with\n"
	"                            few cores, where programs that poll need them too\n"
	"  --nice N                  nice value of the daemon's threads, -20 to 19. Where programs need the same cores, -20 keeps them\n"
	"                            from delaying an engine by their time slices. Less than 0 needs CAP_SYS_NICE\n"
	"  --keep-programs           at the end, leave the programs with the service manager, for the daemon that it starts next: they and\n"
	"                            their connections notice a pause. For `systemctl restart`\n"
	"  --survive-crash SECONDS   the same as --set daemon.survive_crash=SECONDS, for each --config: programs outlive a crash of the daemon, and wait\n"
	"                            so long for the next one\n"
	"  --standby                 with daemon.survive_crash: wait beside the running daemon with the same configuration, and serve its programs if it crashes:\n"
	"                            they and their connections notice a short pause. Without a running daemon, serve\n"
	"  --take-over               take the programs of the running daemon with the same configuration over, which ends: they and\n"
	"                            their connections notice a pause\n"
	"  --check                   check command line and configuration, and end\n"
	"  --help                    this text\n"
	"  --version                 the version\n"
	"\n"
	"EAL options (see DPDK's documentation) give the cores, the memory and the ports. The main lcore runs the\n"
	"control thread, every other one an engine:\n"
	"  uroced -l 0-1 -a 0000:03:00.0 -- --config uroced.conf\n"
	"  uroced -l 0-1 --vdev net_af_packet0,iface=eth1 -- --set 'port uroce0.ethdev=net_af_packet0' \\\n"
	"         --set 'port uroce0.addresses=198.18.0.1/24'\n"
	"A bad wire on purpose: --vdev net_impair0,port=ETHDEV,loss=0.01,... is impair = loss=0.01,... of the port that has that\n"
	"ethdev.\n"
	"Without hugepages: add --no-huge -m 512. With one core: --lcores '0@0,1@0'.\n"
	"SIGHUP: read FILE again. SIGTERM, SIGINT: end.\n";

enum { OPT_CONFIG = 1, OPT_SET, OPT_SOCKET, OPT_ONE_ENGINE, OPT_NICE, OPT_KEEP_PROGRAMS, OPT_SURVIVE_CRASH, OPT_STANDBY, OPT_TAKE_OVER, OPT_CHECK, OPT_HELP, OPT_VERSION };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "set", required_argument, NULL, OPT_SET },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "one-engine", no_argument, NULL, OPT_ONE_ENGINE },
	{ "nice", required_argument, NULL, OPT_NICE },
	{ "keep-programs", no_argument, NULL, OPT_KEEP_PROGRAMS },
	{ "survive-crash", required_argument, NULL, OPT_SURVIVE_CRASH },
	{ "standby", no_argument, NULL, OPT_STANDBY },
	{ "take-over", no_argument, NULL, OPT_TAKE_OVER },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static int
complain(const char *fmt, const char *what, int *status)
{
	fprintf(stderr, "uroced: ");
	fprintf(stderr, fmt, what);
	fprintf(stderr, "; see uroced --help\n");
	*status = EXIT_USAGE;
	return 1;
}

static int
set_of(struct options_stack *s, const char *text, int *status)
{
	if (s->nb_sets == OPTIONS_MAX_SETS)
		return complain("too many --set, the first too many is '%s'", text, status);
	s->sets[s->nb_sets++] = text;
	return 0;
}

static int
add_set(struct options *o, const char *text, int *status)
{
	return set_of(&o->stacks[o->nb_stacks - 1], text, status);
}

/** The first --config is of the first stack, for which there may be a --set already; each further one begins another. */
static int
add_config(struct options *o, const char *file, int *status)
{
	if (o->stacks[o->nb_stacks - 1].config != NULL) {
		if (o->nb_stacks == OPTIONS_MAX_STACKS)
			return complain("too many --config, the first too many is %s", file, status);
		o->nb_stacks++;
	}
	o->stacks[o->nb_stacks - 1].config = file;
	return 0;
}

static int
set_nice(struct options *o, const char *text, int *status)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || n < -20 || n > 19)
		return complain("--nice takes a number from -20 to 19, not '%s'", text, status);
	o->nice = (int)n;
	return 0;
}

static int
take(int opt, struct options *o, char **argv, int *status)
{
	char *text;

	switch (opt) {
	case OPT_CONFIG:
		return add_config(o, optarg, status);
	case OPT_SET:
		return add_set(o, optarg, status);
	case OPT_SOCKET:
		/* Lives as long as the process. */
		if (asprintf(&text, "daemon.socket=%s", optarg) < 0)
			return complain("no memory for --socket %s", optarg, status);
		return add_set(o, text, status);
	case OPT_ONE_ENGINE:
		o->one_engine = true;
		return 0;
	case OPT_NICE:
		return set_nice(o, optarg, status);
	case OPT_KEEP_PROGRAMS:
		o->keep_programs = true;
		return 0;
	case OPT_SURVIVE_CRASH:
		/* Lives as long as the process. */
		if (asprintf(&text, "daemon.survive_crash=%s", optarg) < 0)
			return complain("no memory for --survive-crash %s", optarg, status);
		o->survive_crash = text;
		return 0;
	case OPT_STANDBY:
		o->standby = true;
		return 0;
	case OPT_TAKE_OVER:
		o->take_over = true;
		return 0;
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_HELP:
		fputs(usage, stdout);
		*status = 0;
		return 1;
	case OPT_VERSION:
		printf("uroced %s\n", UROCE_VERSION);
		*status = 0;
		return 1;
	case ':':
		return complain("%s needs a value", argv[optind - 1], status);
	default:
		return complain("unknown option %s", argv[optind - 1], status);
	}
}

/** --help and --version are handled before EAL parses anything, before and after a `--`. */
static bool
is_ours(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0 || strcmp(arg, "--version") == 0;
}

int
options_parse(int argc, char **argv, struct options *o, int *status)
{
	int i, split = argc, opt;

	*o = (struct options){ .eal_argv = argv, .nb_stacks = 1 };
	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			split = i;
			break;
		}
		if (is_ours(argv[i]))
			return take(strcmp(argv[i], "--version") == 0 ? OPT_VERSION : OPT_HELP, o, argv, status);
		if (strcmp(argv[i], "--config") == 0 || strcmp(argv[i], "--set") == 0 ||
		    strcmp(argv[i], "--check") == 0 || strcmp(argv[i], "--socket") == 0 || strcmp(argv[i], "--keep-programs") == 0 || strcmp(argv[i], "--standby") == 0 || strcmp(argv[i], "--take-over") == 0)
			return complain("%s must stand behind a -- that ends EAL's options", argv[i], status);
	}
	o->eal_argc = split;
	if (split == argc)
		return complain("%s", "nothing to do without a configuration: uroced [EAL options] -- --config FILE",
				status);
	/* getopt_long() takes the `--` for the program's name. */
	argc -= split;
	argv += split;
	optind = 1;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+:", long_options, NULL)) != -1) {
		if (take(opt, o, argv, status) != 0)
			return 1;
	}
	if (optind < argc)
		return complain("'%s' is no option", argv[optind], status);
	if (o->standby && o->take_over)
		return complain("%s: the programs of a running daemon are taken over now, or when it crashes", "--standby and --take-over", status);
	for (unsigned int k = 0; k < o->nb_stacks && o->survive_crash != NULL; k++)
		if (set_of(&o->stacks[k], o->survive_crash, status) != 0)
			return 1;
	argv[0] = NULL; /* end of EAL's arguments */
	return 0;
}
