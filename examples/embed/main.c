/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * embed: a DPDK application with the stack inside. It has two hosts in one process, joined by memif. Each host has
 * a loop of its own on an lcore: a turn of the engine, a step of the work, and now and then a turn of the control.
 * With one lcore both hosts share one loop.
 *
 * Nothing here sleeps, and there are no threads except the lcores. An application that prefers a thread for the
 * control calls uroce_control_start() once, and never calls uroce_control_poll().
 */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "work.h"

enum {
	EXIT_USAGE = 2,
	SIZE_DEFAULT = 65536,
	SIZE_MAX_BYTES = 8 << 20,
	CONTROL_TURNS = 256, /* turns of an engine per turn of the control: some tens of microseconds */
	STALL_SECONDS = 20,  /* without progress, after which the program gives up */
};

struct options {
	size_t size;
	double seconds;
	bool ops[WORK_OPS];
};

/** A host and its half of the work. */
struct end {
	struct host host;
	uint32_t turns;
};

static struct end client_end, server_end;
static struct client client;
static struct server server;
static _Atomic bool stop, failed;

static const char usage[] =
	"Usage: embed [EAL options] -- [options]\n"
	"\n"
	"Two uroce hosts inside one DPDK application: messages by RDMA WRITE, SEND and RDMA READ, every byte checked.\n"
	"\n"
	"  --op write|send|read  one operation (default: all, one after the other)\n"
	"  --size BYTES          of a message, 1 to 8388608 (default 65536)\n"
	"  --seconds S           per operation, 0.01 to 3600 (default 1)\n"
	"  --help                this text\n"
	"\n"
	"One or two lcores, no privileges, no hugepages needed:\n"
	"  embed -l 0-1 --no-huge -m 256 --no-pci -- --size 4096\n";

static bool
bad_usage(const char *fmt, const char *what)
{
	fputs("embed: ", stderr);
	fprintf(stderr, fmt, what);
	fputs("; see embed -- --help\n", stderr);
	return false;
}

static bool
take_op(struct options *o, const char *text)
{
	for (int i = 0; i < WORK_OPS; i++)
		if (strcmp(text, work_names[i]) == 0) {
			memset(o->ops, 0, sizeof(o->ops));
			o->ops[i] = true;
			return true;
		}
	return bad_usage("--op %s: must be write, send or read", text);
}

static bool
take_size(struct options *o, const char *text)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	o->size = v;
	return (*end == '\0' && text[0] != '-' && v >= 1 && v <= SIZE_MAX_BYTES) ||
	       bad_usage("--size %s: must be 1 to 8388608", text);
}

static bool
take_seconds(struct options *o, const char *text)
{
	char *end;

	o->seconds = strtod(text, &end);
	return (*end == '\0' && end != text && isfinite(o->seconds) && o->seconds >= 0.01 && o->seconds <= 3600) ||
	       bad_usage("--seconds %s: must be 0.01 to 3600", text);
}

/** @return false: end the program with *@p status. */
static bool
parse(int argc, char **argv, struct options *o, int *status)
{
	enum { OPT_OP = 1, OPT_SIZE, OPT_SECONDS, OPT_HELP };
	static const struct option longs[] = {
		{ "op", required_argument, NULL, OPT_OP },
		{ "size", required_argument, NULL, OPT_SIZE },
		{ "seconds", required_argument, NULL, OPT_SECONDS },
		{ "help", no_argument, NULL, OPT_HELP },
		{ NULL, 0, NULL, 0 },
	};
	bool good = true;
	int c;

	*o = (struct options){ .size = SIZE_DEFAULT, .seconds = 1, .ops = { true, true, true } };
	*status = EXIT_USAGE;
	opterr = 0;
	while (good && (c = getopt_long(argc, argv, "+:", longs, NULL)) != -1) {
		switch (c) {
		case OPT_OP:
			good = take_op(o, optarg);
			break;
		case OPT_SIZE:
			good = take_size(o, optarg);
			break;
		case OPT_SECONDS:
			good = take_seconds(o, optarg);
			break;
		case OPT_HELP:
			fputs(usage, stdout);
			*status = EXIT_SUCCESS;
			return false;
		default:
			good = bad_usage(c == ':' ? "%s needs a value" : "unknown option %s", argv[optind - 1]);
			break;
		}
	}
	if (good && optind < argc)
		good = bad_usage("'%s' is no option", argv[optind]);
	optind = 1; /* rte_eal_init() parses again from the beginning */
	return good;
}

/** One turn of a host's engine, and in every CONTROL_TURNS-th call also one of its control. */
static void
drive(struct end *e)
{
	uroce_engine_poll(e->host.stack, 0);
	if (++e->turns % CONTROL_TURNS == 0)
		uroce_control_poll(e->host.stack);
}

/** The server's loop, on its own lcore. */
static int
serve(void *arg)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		drive(&server_end);
		if (!server_step(&server)) {
			atomic_store(&failed, true);
			break;
		}
	}
	return 0;
}

/** The client's loop for one operation. With one lcore it is the server's loop, too. */
static bool
run_op(const struct options *o, enum work_op op, bool alone)
{
	uint64_t hz = rte_get_tsc_hz(), start = rte_rdtsc(), now = start, moved = start, done = 0;
	uint64_t end = start + (uint64_t)(o->seconds * (double)hz);
	double seconds;

	client_begin(&client, op);
	while (now < end || client_done(&client) < client.sent) {
		drive(&client_end);
		if (!client_step(&client, now < end) || atomic_load_explicit(&failed, memory_order_relaxed))
			return false;
		if (alone) {
			drive(&server_end);
			if (!server_step(&server))
				return false;
		}
		now = rte_rdtsc();
		if (client_done(&client) != done) {
			done = client_done(&client);
			moved = now;
		} else if (now - moved > STALL_SECONDS * hz) {
			fprintf(stderr, "embed: %s: nothing has moved for %d s\n", work_names[op], STALL_SECONDS);
			return false;
		}
	}
	seconds = (double)(now - start) / (double)hz;
	printf("%-5s %zu bytes: %" PRIu64 " messages in %.2f s, %.2f Gbit/s, every byte right\n", work_names[op], o->size,
	       client.sent, seconds, (double)client.sent * (double)o->size * 8 / seconds / 1e9);
	fflush(stdout);
	return client.sent > 0;
}

/** Open both hosts and connect them to each other. */
static bool
set_up(const struct options *o)
{
	struct host *c = &client_end.host, *s = &server_end.host;

	return host_open(s, 0, work_bytes(o->size)) && host_open(c, 1, work_bytes(o->size)) && host_wait_link(s) &&
	       host_wait_link(c) && host_connect(s, c) && host_connect(c, s) && server_init(&server, s, o->size) &&
	       client_init(&client, c, s, o->size);
}

static bool
run(const struct options *o)
{
	unsigned int lcore = rte_get_next_lcore(-1, 1, 0);
	bool alone = lcore == RTE_MAX_LCORE, good = true;

	if (!alone && rte_eal_remote_launch(serve, NULL, lcore) != 0) {
		fprintf(stderr, "embed: lcore %u doesn't start\n", lcore);
		return false;
	}
	for (int op = 0; op < WORK_OPS && good; op++)
		good = !o->ops[op] || run_op(o, (enum work_op)op, alone);
	atomic_store(&stop, true);
	rte_eal_mp_wait_lcore();
	return good && !atomic_load(&failed);
}

int
main(int argc, char **argv)
{
	int eal_argc, status;
	struct options o;
	bool good;

	for (eal_argc = 1; eal_argc < argc && strcmp(argv[eal_argc], "--") != 0; eal_argc++)
		;
	/* Our own options first: a mistake is reported before EAL starts. getopt takes the `--` for the program's name. */
	if (!parse(argc - eal_argc, argv + eal_argc, &o, &status))
		return status;
	if (eal_argc < argc)
		argv[eal_argc] = NULL;
	if (rte_eal_init(eal_argc, argv) < 0) {
		fprintf(stderr, "embed: DPDK's EAL doesn't start: %s\n", rte_strerror(rte_errno));
		return EXIT_FAILURE;
	}
	if (rte_lcore_count() > 2) {
		fprintf(stderr, "embed: %u lcores, but there is work for one or two; give EAL -l 0-1\n", rte_lcore_count());
		return EXIT_USAGE;
	}
	good = set_up(&o) && run(&o);
	/* Close the end that is the memif client first. */
	host_close(&client_end.host);
	host_close(&server_end.host);
	/*
	 * No rte_eal_cleanup(): in DPDK 22.11 it frees memory that EAL's interrupt thread may still be using for memif.
	 * Applications with other ports call it here.
	 */
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
