/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

static const char *const op_names[] = { "write", "send", "read", "fetch_add", "cmp_swap", NULL };
static const char *const role_names[] = { "pair", "server", "client", "shm", NULL };
static const char *const test_names[] = { "rate", "latency", "memcpy", "ring", NULL };

const char *
perf_op_name(enum perf_op op)
{
	return op_names[op];
}

const char *
perf_role_name(enum perf_role role)
{
	return role_names[role];
}

static const char usage_text[] =
	"usage: uroce-perf [EAL options] -- [options]\n"
	"  --vdev net_impair0,port=ETHDEV,loss=0.01,...   before the --: what that port receives is lost ...\n"
	"  --role pair|shm|server|client   pair: two hosts in this process, a memif between them (default);\n"
	"                             shm: a program on one core, an engine on another, QPs looped back;\n"
	"                             server, client: two processes\n"
	"  --op write|send|read|fetch_add|cmp_swap\n"
	"  --test rate|latency|memcpy|ring   memcpy and ring (a bare shared-memory ring) are baselines\n"
	"  --size BYTES               of a message (8)\n"
	"  --depth N                  WQEs in flight per QP (128)\n"
	"  --qps N                    QPs per lcore (1)\n"
	"  --signal N                 every N-th WQE is signalled (a quarter of the depth, at most 32)\n"
	"  --inline BYTES             post messages up to this size inline (0)\n"
	"  --mtu BYTES                path MTU, 256 to 4096 (4096)\n"
	"  --rd-atomic N              outstanding READs and atomics per QP (64)\n"
	"  --memory BYTES             memory that messages walk over per lcore, K, M and G allowed (depth messages)\n"
	"  --seconds S, --warmup S    of rate tests (2, 0.5)\n"
	"  --operations N             a rate test ends after so many operations per lcore, not after a time\n"
	"  --iterations N             of latency tests (20000)\n"
	"  --engines N                lcores per host (1); pair needs twice as many, shm exactly one more\n"
	"  --one-core                 pair: both hosts in one loop on one lcore; cycles are those of both\n"
	"  --ipv6                     pair, shm: IPv6 addresses\n"
	"  --port ETHDEV, --address ADDR/PREFIX   server, client: the port and its address\n"
	"  --peer HOST, --tcp-port N  client: where the server listens (18700)\n"
	"  --gateway-mac MAC          server, client: next hop, if the other isn't on the same link\n"
	"  --brief                    one line of key=value pairs\n"
	"  --help                     this text\n";

enum {
	OPT_ROLE = 1, OPT_OP, OPT_TEST, OPT_SIZE, OPT_DEPTH, OPT_QPS, OPT_SIGNAL, OPT_INLINE, OPT_MTU, OPT_RD_ATOMIC,
	OPT_MEMORY, OPT_SECONDS, OPT_WARMUP, OPT_OPERATIONS, OPT_ITERATIONS, OPT_ENGINES, OPT_IPV6, OPT_ONE_CORE,
	OPT_PORT, OPT_ADDRESS, OPT_PEER, OPT_TCP_PORT, OPT_GATEWAY, OPT_BRIEF, OPT_HELP,
};

static const struct option options[] = {
	{ "role", required_argument, NULL, OPT_ROLE },
	{ "op", required_argument, NULL, OPT_OP },
	{ "test", required_argument, NULL, OPT_TEST },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "depth", required_argument, NULL, OPT_DEPTH },
	{ "qps", required_argument, NULL, OPT_QPS },
	{ "signal", required_argument, NULL, OPT_SIGNAL },
	{ "inline", required_argument, NULL, OPT_INLINE },
	{ "mtu", required_argument, NULL, OPT_MTU },
	{ "rd-atomic", required_argument, NULL, OPT_RD_ATOMIC },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "operations", required_argument, NULL, OPT_OPERATIONS },
	{ "iterations", required_argument, NULL, OPT_ITERATIONS },
	{ "engines", required_argument, NULL, OPT_ENGINES },
	{ "one-core", no_argument, NULL, OPT_ONE_CORE },
	{ "ipv6", no_argument, NULL, OPT_IPV6 },
	{ "port", required_argument, NULL, OPT_PORT },
	{ "address", required_argument, NULL, OPT_ADDRESS },
	{ "peer", required_argument, NULL, OPT_PEER },
	{ "tcp-port", required_argument, NULL, OPT_TCP_PORT },
	{ "gateway-mac", required_argument, NULL, OPT_GATEWAY },
	{ "brief", no_argument, NULL, OPT_BRIEF },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/** @return the index of @p text in @p names, or -1 with a message. */
static int
choice(const char *option, const char *text, const char *const *names)
{
	for (int i = 0; names[i] != NULL; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	fprintf(stderr, "uroce-perf: --%s %s: must be one of", option, text);
	for (int i = 0; names[i] != NULL; i++)
		fprintf(stderr, " %s", names[i]);
	fprintf(stderr, "\n");
	return -1;
}

/** @return false with a message if @p text is no number from @p min to @p max. K, M and G multiply. */
static bool
number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	static const char units[] = "KMG";
	char *end;
	const char *unit;

	errno = 0;
	*out = strtoull(text, &end, 0);
	unit = *end != '\0' ? strchr(units, *end) : NULL;
	if (unit != NULL && errno == 0 && *out <= UINT64_MAX >> 30) {
		*out <<= 10 * (unit - units + 1);
		end++;
	}
	if (errno == 0 && end != text && *end == '\0' && text[0] != '-' && *out >= min && *out <= max)
		return true;
	fprintf(stderr, "uroce-perf: --%s %s: must be a number from %llu to %llu\n", option, text,
		(unsigned long long)min, (unsigned long long)max);
	return false;
}

static bool
number32(const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t v;

	if (!number(option, text, min, max, &v))
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool
seconds(const char *option, const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (end != text && *end == '\0' && *out >= 0 && *out <= 86400)
		return true;
	fprintf(stderr, "uroce-perf: --%s %s: must be a number of seconds from 0 to 86400\n", option, text);
	return false;
}

static bool
text_copy(const char *option, const char *text, char out[PERF_TEXT_BYTES])
{
	if ((size_t)snprintf(out, PERF_TEXT_BYTES, "%s", text) < PERF_TEXT_BYTES)
		return true;
	fprintf(stderr, "uroce-perf: --%s %s: at most %d characters\n", option, text, PERF_TEXT_BYTES - 1);
	return false;
}

static bool
set_choice(int opt, const char *text, struct perf_opts *o)
{
	int v;

	switch (opt) {
	case OPT_ROLE:
		v = choice("role", text, role_names);
		o->role = (enum perf_role)v;
		break;
	case OPT_OP:
		v = choice("op", text, op_names);
		o->op = (enum perf_op)v;
		break;
	default:
		v = choice("test", text, test_names);
		o->test = (enum perf_test)v;
		break;
	}
	return v >= 0;
}

static bool
set_option(int opt, const char *name, const char *text, struct perf_opts *o)
{
	uint32_t port;

	switch (opt) {
	case OPT_ROLE:
	case OPT_OP:
	case OPT_TEST:
		return set_choice(opt, text, o);
	case OPT_SIZE:
		return number32(name, text, 0, 1u << 30, &o->size);
	case OPT_DEPTH:
		return number32(name, text, 1, PERF_MAX_DEPTH, &o->depth);
	case OPT_QPS:
		return number32(name, text, 1, PERF_MAX_QPS, &o->qps);
	case OPT_SIGNAL:
		return number32(name, text, 1, PERF_MAX_DEPTH, &o->signal);
	case OPT_INLINE:
		return number32(name, text, 0, UROCE_MAX_INLINE, &o->inline_bytes);
	case OPT_MTU:
		return number32(name, text, 256, 4096, &o->mtu);
	case OPT_RD_ATOMIC:
		return number32(name, text, 1, UROCE_MAX_RD_ATOMIC, &o->rd_atomic);
	case OPT_MEMORY:
		return number(name, text, 64, UINT64_C(1) << 40, &o->memory);
	case OPT_SECONDS:
		return seconds(name, text, &o->seconds);
	case OPT_WARMUP:
		return seconds(name, text, &o->warmup);
	case OPT_OPERATIONS:
		return number(name, text, 1, UINT64_C(1) << 40, &o->operations);
	case OPT_ITERATIONS:
		return number32(name, text, 10, 100000000, &o->iterations);
	case OPT_ENGINES:
		return number32(name, text, 1, PERF_MAX_ENGINES, &o->engines);
	case OPT_PORT:
		return text_copy(name, text, o->ethdev);
	case OPT_ADDRESS:
		return text_copy(name, text, o->address);
	case OPT_PEER:
		return text_copy(name, text, o->peer);
	case OPT_GATEWAY:
		return text_copy(name, text, o->gateway);
	case OPT_TCP_PORT:
		if (!number32(name, text, 1, UINT16_MAX, &port))
			return false;
		o->tcp_port = (uint16_t)port;
		return true;
	case OPT_IPV6:
		o->ipv6 = true;
		return true;
	case OPT_ONE_CORE:
		o->one_core = true;
		return true;
	case OPT_BRIEF:
		o->brief = true;
		return true;
	default:
		return false;
	}
}

static bool
wrong(const char *what)
{
	fprintf(stderr, "uroce-perf: %s\n", what);
	return false;
}

/** Check options that depend on each other, and set the default of --signal. */
static bool
check(struct perf_opts *o)
{
	if (o->op >= PERF_FETCH_ADD && o->size != 8)
		return wrong("--size: atomics have 8 bytes");
	if (o->test == PERF_LATENCY && o->size == 0 && o->op == PERF_WRITE)
		return wrong("--size 0: the latency of a WRITE is taken at its last byte; give at least 1");
	if (o->mtu & (o->mtu - 1))
		return wrong("--mtu: must be 256, 512, 1024, 2048 or 4096");
	if (o->test == PERF_LATENCY && o->depth < 32)
		return wrong("--depth: latency tests need at least 32");
	if (o->signal == 0) {
		o->signal = o->depth / 4 < 1 ? 1 : o->depth / 4;
		if (o->signal > 32)
			o->signal = 32;
	}
	if (o->signal > o->depth)
		return wrong("--signal: must be at most --depth, or the SQ fills up without a completion");
	if (o->one_core && (o->role != PERF_PAIR || o->engines != 1))
		return wrong("--one-core: goes with --role pair and one engine");
	if (o->role == PERF_SHM && o->engines != 1)
		return wrong("--engines: --role shm has one");
	if ((o->role == PERF_SERVER || o->role == PERF_CLIENT) && (o->ethdev[0] == '\0' || o->address[0] == '\0'))
		return wrong("--role server and client need --port ETHDEV and --address ADDR/PREFIX");
	if (o->role == PERF_CLIENT && o->peer[0] == '\0')
		return wrong("--role client needs --peer HOST");
	return true;
}

int
perf_opts_parse(int argc, char **argv, struct perf_opts *o)
{
	int opt, index;

	*o = (struct perf_opts){
		.size = 8, .depth = 128, .qps = 1, .mtu = 4096, .rd_atomic = UROCE_MAX_RD_ATOMIC, .engines = 1,
		.iterations = 20000, .seconds = 2, .warmup = 0.5, .tcp_port = PERF_TCP_PORT,
	};
	while ((opt = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (opt == OPT_HELP) {
			fputs(usage_text, stdout);
			return 1;
		}
		if (opt == '?' || !set_option(opt, options[index].name, optarg, o))
			return -1;
	}
	if (optind < argc) {
		fprintf(stderr, "uroce-perf: %s: no such option; --help lists them\n", argv[optind]);
		return -1;
	}
	return check(o) ? 0 : -1;
}
