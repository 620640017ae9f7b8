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
	"usage: uroce-perf [EAL options --] [options]\n"
	"  --vdev net_impair0,port=ETHDEV,loss=0.01,...   before the --: what that port receives is lost ...\n"
	"  --role pair|shm|server|client   pair: two hosts in this process, a memif between them (default);\n"
	"                             shm: a program on one core, an engine on another, QPs looped back;\n"
	"                             server, client: two processes\n"
	"  --op write|send|read|fetch_add|cmp_swap\n"
	"  --test rate|latency|memcpy|ring   memcpy and ring (a bare shared-memory ring) are baselines\n"
	"  --size BYTES               of a message (8)\n"
	"  --depth N                  WQEs in flight per QP (128)\n"
	"  --qps N                    QPs per lcore (1)\n"
	"  --active N                 of these, how many send (all); the others are connected and rest\n"
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
	"  --loop-frames              shm: packets have frames, instead of going by reference\n"
	"  --journal                  engines write down what survives a crash, as with daemon.survive_crash of uroced\n"
	"  --brief                    one line of key=value pairs\n"
	"  --help                     this text\n";

/** The type of an option's value, and so of its member of struct perf_opts. */
enum value { FLAG, NUMBER16, NUMBER32, NUMBER64, SECONDS, TEXT, CHOICE };

/** All options but --help, whose index follows the last one. */
static const struct perf_option {
	const char *name;
	enum value value;
	size_t offset;            /**< offset of the member */
	uint64_t min, max;        /**< limits of numbers */
	const char *const *words; /**< CHOICE: names of the values of the member, which is an enum */
} table[] = {
#define OPTION(word, kind, member, ...) \
	{ .name = (word), .value = (kind), .offset = offsetof(struct perf_opts, member), __VA_ARGS__ }
#define NUMBER(word, kind, member, lo, hi) OPTION(word, kind, member, .min = (lo), .max = (hi))
	OPTION("role", CHOICE, role, .words = role_names),
	OPTION("op", CHOICE, op, .words = op_names),
	OPTION("test", CHOICE, test, .words = test_names),
	NUMBER("size", NUMBER32, size, 0, 1u << 30),
	NUMBER("depth", NUMBER32, depth, 1, PERF_MAX_DEPTH),
	NUMBER("qps", NUMBER32, qps, 1, UROCE_MAX_QP),
	NUMBER("active", NUMBER32, active, 1, UROCE_MAX_QP),
	NUMBER("signal", NUMBER32, signal, 1, PERF_MAX_DEPTH),
	NUMBER("inline", NUMBER32, inline_bytes, 0, UROCE_MAX_INLINE),
	NUMBER("mtu", NUMBER32, mtu, 256, 4096),
	NUMBER("rd-atomic", NUMBER32, rd_atomic, 1, UROCE_MAX_RD_ATOMIC),
	NUMBER("memory", NUMBER64, memory, 64, UINT64_C(1) << 40),
	OPTION("seconds", SECONDS, seconds),
	OPTION("warmup", SECONDS, warmup),
	NUMBER("operations", NUMBER64, operations, 1, UINT64_C(1) << 40),
	NUMBER("iterations", NUMBER32, iterations, 10, 100000000),
	NUMBER("engines", NUMBER32, engines, 1, PERF_MAX_ENGINES),
	OPTION("one-core", FLAG, one_core),
	OPTION("ipv6", FLAG, ipv6),
	OPTION("port", TEXT, ethdev),
	OPTION("address", TEXT, address),
	OPTION("peer", TEXT, peer),
	NUMBER("tcp-port", NUMBER16, tcp_port, 1, UINT16_MAX),
	OPTION("gateway-mac", TEXT, gateway),
	OPTION("loop-frames", FLAG, loop_frames),
	OPTION("journal", FLAG, journal),
	OPTION("brief", FLAG, brief),
#undef NUMBER
#undef OPTION
};
enum { OPTIONS = sizeof(table) / sizeof(table[0]) };
_Static_assert(sizeof(enum perf_role) == sizeof(int) && sizeof(enum perf_op) == sizeof(int) &&
	       sizeof(enum perf_test) == sizeof(int), "set_option() stores them as int");

bool
perf_is_option(const char *arg)
{
	size_t n = strcspn(arg, "=");

	if (strcmp(arg, "--help") == 0)
		return true;
	for (unsigned int i = 0; i < OPTIONS; i++)
		if (n == strlen(table[i].name) + 2 && strncmp(arg, "--", 2) == 0 && strncmp(arg + 2, table[i].name, n - 2) == 0)
			return true;
	return false;
}

/**
 * Find @p text in @p names.
 * @return its index, or -1 with a message printed.
 */
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

/**
 * Parse a number, which may have the suffix K, M or G.
 * @return false with a message printed if it isn't a number from @p min to @p max.
 */
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
set_option(const struct perf_option *p, const char *text, struct perf_opts *o)
{
	void *member = (char *)o + p->offset;
	uint64_t n = 0;

	switch (p->value) {
	case FLAG:
		*(bool *)member = true;
		return true;
	case CHOICE:
		*(int *)member = choice(p->name, text, p->words);
		return *(int *)member >= 0;
	case SECONDS:
		return seconds(p->name, text, member);
	case TEXT:
		return text_copy(p->name, text, member);
	default:
		break;
	}
	if (!number(p->name, text, p->min, p->max, &n))
		return false;
	/* This is correct on little-endian machines only; UROCE is for x86. */
	memcpy(member, &n, p->value == NUMBER16 ? 2 : p->value == NUMBER32 ? 4 : 8);
	return true;
}

static bool
wrong(const char *what)
{
	fprintf(stderr, "uroce-perf: %s\n", what);
	return false;
}

/** Check how many QPs there are, and set the default of --active. */
static bool
check_qps(struct perf_opts *o)
{
	uint32_t most = UROCE_MAX_QP / (o->role == PERF_SHM ? PERF_ENDS_PER_ENGINE : o->engines);

	if (o->qps > most) {
		fprintf(stderr, "uroce-perf: --qps: at most %u here: a host has %u (UROCE_MAX_QP)\n", most, UROCE_MAX_QP);
		return false;
	}
	if (o->active == 0)
		o->active = o->qps;
	if (o->active > o->qps)
		return wrong("--active: must be at most --qps");
	if (o->test == PERF_LATENCY && o->active != o->qps)
		return wrong("--active: latency tests use one QP");
	return true;
}

/** Check options that depend on each other, and set the default of --signal. */
static bool
check(struct perf_opts *o)
{
	if (!check_qps(o))
		return false;
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
	struct option options[OPTIONS + 2] = { [OPTIONS] = { .name = "help" } };
	int opt, index;

	for (unsigned int i = 0; i < OPTIONS; i++)
		options[i] = (struct option){ table[i].name, table[i].value == FLAG ? no_argument : required_argument, NULL, 0 };
	*o = (struct perf_opts){
		.size = 8, .depth = 128, .qps = 1, .mtu = 4096, .rd_atomic = UROCE_MAX_RD_ATOMIC, .engines = 1,
		.iterations = 20000, .seconds = 2, .warmup = 0.5, .tcp_port = PERF_TCP_PORT,
	};
	while ((opt = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (opt != '?' && index == OPTIONS) {
			fputs(usage_text, stdout);
			return 1;
		}
		if (opt == '?' || !set_option(&table[index], optarg, o))
			return -1;
	}
	if (optind < argc) {
		fprintf(stderr, "uroce-perf: %s: no such option; --help lists them\n", argv[optind]);
		return -1;
	}
	return check(o) ? 0 : -1;
}
