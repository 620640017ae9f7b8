/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's command line: seeds, and what to do with one that fails. */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "marks.h"
#include "sim.h"

enum {
	POOL_MBUFS = 32767,
	SMALL_POOL_MBUFS = 255, /* enough for the mbufs that four transports keep, and some */
	POOL_CACHE = 256,
	MBUF_ROOM = RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES,
	MMAP_THRESHOLD = 1 << 20,
	SEED_CPU_S = 60, /* of a seed at most: hundreds of times what one needs */
	PROGRESS_MS = 200, /* between two lines on a terminal */
	EXIT_FOUND = 1,
	EXIT_USAGE = 2,
};
#define DEFAULT_SEEDS 2000
#define ARENA_ADDRESS ((void *)UINT64_C(0x6a0000000000)) /* fixed, so that a seed's addresses are the same every time */

uint8_t *sim_arena, *sim_pattern;
struct rte_mempool *sim_pool, *sim_small_pool;
int sim_mem_fd = -1;

static volatile uint64_t current_seed;

static const char usage[] = "usage: sim [--seed N [-v]] [--seeds A-B] [--time SECONDS] [--faults MASK] [--ops N] "
			    "[--conns N] [--no-shrink] [--keep-going] [--marks]\n"
			    "  --seed N       run one seed; -v prints every step\n"
			    "  --seeds A-B    run these seeds\n"
			    "  --time S       run seeds from 1 (or A) on for S seconds\n"
			    "  --faults MASK  only these kinds of fault, as a failure prints them\n"
			    "  --ops N        at most N operations per program\n"
			    "  --conns N      at most N connections\n"
			    "  --no-shrink    don't look for a smaller configuration that fails too\n"
			    "  --keep-going   don't stop at the first seed that fails\n"
			    "  --marks        print how often each mark was reached (docs/testing.md)\n";

/* A crash of the code under test must name its seed too. */
static void
on_crash(int sig)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "\nseed %" PRIu64 ": signal %d\n", current_seed, sig);

	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(EXIT_FOUND);
	signal(sig, SIG_DFL);
	raise(sig);
}

/* The virtual clock stands still in a loop of the code under test that doesn't end. */
static void
on_no_end(int sig)
{
	char text[80];
	int n = snprintf(text, sizeof(text), "\nseed %" PRIu64 ": no end within %d s of CPU time\n", current_seed,
			 SEED_CPU_S);

	(void)sig;
	_exit(n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0 ? EXIT_USAGE : EXIT_FOUND);
}

static bool
setup(void)
{
	char lcores[16];
	char *argv[] = { "sim",      "--no-huge", "-m",          "256",   "--no-pci", "--no-shconf", "--no-telemetry",
			 "--lcores", lcores,      "--log-level", "error", NULL };
	struct rng r = { .s = 1 };
	cpu_set_t cpus;
	uint64_t word;
	uint32_t i;

	/* Large tables that a seed hardly touches come from mmap(), zeroed by nobody. */
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	/* EAL pins the main lcore; several simulators must not end up on one CPU. */
	CPU_ZERO(&cpus);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return false;
	for (i = 0; i < CPU_SETSIZE && !CPU_ISSET(i, &cpus); i++)
		;
	snprintf(lcores, sizeof(lcores), "0@%u", i);
	if (rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv) < 0) {
		fprintf(stderr, "sim: EAL: %s\n", rte_strerror(rte_errno));
		return false;
	}
	sched_setaffinity(0, sizeof(cpus), &cpus);

	sim_pool = rte_pktmbuf_pool_create("sim", POOL_MBUFS, POOL_CACHE, 0, MBUF_ROOM, SOCKET_ID_ANY);
	sim_small_pool = rte_pktmbuf_pool_create("sim_small", SMALL_POOL_MBUFS, 0, 0, MBUF_ROOM, SOCKET_ID_ANY);
	sim_arena = mmap(ARENA_ADDRESS, SIM_ARENA_BYTES + SIM_PATTERN_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	sim_mem_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (sim_pool == NULL || sim_small_pool == NULL || sim_arena == MAP_FAILED || sim_mem_fd < 0 || !crash_setup()) {
		fprintf(stderr, "sim: no memory\n");
		return false;
	}
	sim_pattern = sim_arena + SIM_ARENA_BYTES;
	for (i = 0; i < SIM_PATTERN_BYTES; i += 8) {
		word = rng_next(&r);
		memcpy(sim_pattern + i, &word, 8);
	}
	/* Whoever writes there dies, with the seed's number. */
	mprotect(sim_pattern, SIM_PATTERN_BYTES, PROT_READ);
	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGFPE, on_crash);
	signal(SIGVTALRM, on_no_end);
	return true;
}

static struct sim_world world;

/* @param left  Gets the number of blocks of memory that are left. */
static bool
run_once(uint64_t seed, const struct sim_override *o, bool verbose, int64_t *left)
{
	const struct itimerval cpu = { .it_value.tv_sec = SEED_CPU_S };
	int64_t before = leaks_in_use();
	struct sim_config c;
	bool good;

	setitimer(ITIMER_VIRTUAL, &cpu, NULL);
	config_from_seed(&c, seed, o);
	good = world_run(&world, &c, verbose);
	*left = leaks_in_use() - before;
	return good;
}

static bool
run(uint64_t seed, const struct sim_override *o, bool verbose)
{
	int64_t left;
	bool good;

	current_seed = seed;
	good = run_once(seed, o, verbose, &left);
	/* What lasts is made by the first seed that needs it; a leak comes again. What fails may leave anything behind. */
	if (good && left != 0)
		good = run_once(seed, o, verbose, &left);
	if (good && left != 0) {
		snprintf(world.why, sizeof(world.why), "%" PRId64 " blocks of memory are left", left);
		good = false;
	}
	return good;
}

/* Take away faults, connections and operations as long as it still fails. */
static void
shrink(uint64_t seed, struct sim_override o)
{
	struct sim_override t;
	struct sim_config c;
	bool smaller = true;
	unsigned int i;

	config_from_seed(&c, seed, &o);
	o = (struct sim_override){ .faults_mask = c.faults, .ops = c.ops, .conns = c.nb_conns };
	while (smaller) {
		smaller = false;
		for (i = 0; i < SIM_NB_FAULTS; i++) {
			t = o;
			t.faults_mask &= ~(UINT64_C(1) << i);
			if (t.faults_mask != o.faults_mask && !run(seed, &t, false)) {
				o = t;
				smaller = true;
			}
		}
		t = o;
		t.ops /= 2;
		if (t.ops != 0 && !run(seed, &t, false)) {
			o = t;
			smaller = true;
		}
		t = o;
		t.conns--;
		if (t.conns != 0 && !run(seed, &t, false)) {
			o = t;
			smaller = true;
		}
	}
	run(seed, &o, false);
	printf(" smaller: %s\n", world.why);
	config_print(&world.cfg, stdout);
}

static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

struct options {
	uint64_t first, last;
	double time_s;
	bool verbose, no_shrink, keep_going, marks;
	struct sim_override o;
};

static bool
parse(int argc, char **argv, struct options *opt)
{
	static const struct option longs[] = {
		{ "seed", required_argument, NULL, 's' }, { "seeds", required_argument, NULL, 'S' },
		{ "time", required_argument, NULL, 't' }, { "faults", required_argument, NULL, 'f' },
		{ "ops", required_argument, NULL, 'o' }, { "conns", required_argument, NULL, 'c' },
		{ "no-shrink", no_argument, NULL, 'n' }, { "keep-going", no_argument, NULL, 'k' },
		{ "marks", no_argument, NULL, 'm' },
		{ NULL, 0, NULL, 0 },
	};
	char *end;
	int ch;

	*opt = (struct options){ .first = 1, .last = DEFAULT_SEEDS, .o.faults_mask = UINT64_MAX };
	while ((ch = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		end = NULL;
		switch (ch) {
		case 's':
			opt->first = opt->last = strtoull(optarg, &end, 0);
			break;
		case 'S':
			opt->first = strtoull(optarg, &end, 0);
			if (*end != '-')
				return false;
			opt->last = strtoull(end + 1, &end, 0);
			break;
		case 't':
			opt->time_s = strtod(optarg, &end);
			opt->last = UINT64_MAX;
			break;
		case 'f':
			opt->o.faults_mask = strtoull(optarg, &end, 0);
			break;
		case 'o':
			opt->o.ops = (uint32_t)strtoul(optarg, &end, 0);
			break;
		case 'c':
			opt->o.conns = (uint32_t)strtoul(optarg, &end, 0);
			break;
		case 'v':
			opt->verbose = true;
			break;
		case 'n':
			opt->no_shrink = true;
			break;
		case 'k':
			opt->keep_going = true;
			break;
		case 'm':
			opt->marks = true;
			break;
		default:
			return false;
		}
		if (end != NULL && (end == optarg || *end != 0))
			return false;
	}
	return optind == argc && opt->first <= opt->last;
}

/** On a terminal, one line that says how far it is; nothing if standard error goes elsewhere. */
static void
progress(const struct options *opt, uint64_t seed, uint64_t bad, double start)
{
	static double next;
	double now = seconds(), share;

	if (opt->verbose || !isatty(STDERR_FILENO) || (now < next && seed != opt->last))
		return;
	next = now + PROGRESS_MS / 1e3;
	share = opt->time_s > 0 ? (now - start) / opt->time_s : (double)(seed - opt->first + 1) / (double)(opt->last - opt->first + 1);
	fprintf(stderr, "\rseed %" PRIu64 ", %.0f %%, %.0f seeds/s, %" PRIu64 " failed ", seed, 100 * (share < 1 ? share : 1),
		(double)(seed - opt->first + 1) / (now - start), bad);
	if (share >= 1)
		fprintf(stderr, "\r%60s\r", "");
}

int
main(int argc, char **argv)
{
	uint64_t seed, ops = 0, packets = 0, lost = 0, errors = 0, bad = 0;
	struct options opt;
	double start;

	if (!parse(argc, argv, &opt)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!setup())
		return EXIT_USAGE;
	start = seconds();
	for (seed = opt.first;; seed++) {
		if (!run(seed, &opt.o, opt.verbose)) {
			bad++;
			printf("seed %" PRIu64 " FAILED: %s\n", seed, world.why);
			config_print(&world.cfg, stdout);
			if (!opt.no_shrink && !opt.verbose)
				shrink(seed, opt.o);
			if (!opt.keep_going)
				break;
		}
		ops += world.stats.ops;
		packets += world.stats.packets;
		lost += world.stats.lost + world.stats.corrupted;
		errors += world.stats.errors;
		progress(&opt, seed, bad, start);
		if (seed == opt.last || (opt.time_s > 0 && seconds() - start >= opt.time_s))
			break;
	}
	printf("%" PRIu64 " seeds, %" PRIu64 " failed; %.1f seeds/s; %" PRIu64 " operations, %" PRIu64
	       " packets, %" PRIu64 " of them lost or damaged, %" PRIu64 " completions in error\n",
	       seed - opt.first + 1, bad, (double)(seed - opt.first + 1) / (seconds() - start), ops, packets, lost,
	       errors);
	if (opt.marks || opt.first != opt.last)
		marks_print(opt.marks);
	rte_eal_cleanup();
	return bad == 0 ? 0 : EXIT_FOUND;
}
