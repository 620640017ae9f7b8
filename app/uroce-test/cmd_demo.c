/* SPDX-License-Identifier: BSD-3-Clause */
/* demo: traffic that is checked, then a bad network and what the transport makes of it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "base/counter.h"
#include "hosts.h"
#include "shell.h"
#include "uroce/stack.h"
#include "workload.h"

enum {
	SAMPLE_MS = 250,
	PHASE_SAMPLES = 6,   /* before the losses, with them, and afterwards */
	RATE_WIDTH = 36,     /* characters of the bar of the first samples */
	RATE_WIDTH_MAX = 48,
	LINE_BYTES = 160,
};

/** What is drawn of one moment; counted from the start. */
struct moment {
	uint64_t bytes, lost, again;
	double seconds;
};

/** Run a command that the user can type, too, and print it. @return 0 or -1. */
static int
say_and_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int
say_and_run(const char *fmt, ...)
{
	char line[LINE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	printf("> %s\n", line);
	return command_run(line);
}

/** @return the workload that was started last. */
static struct workload *
latest(void)
{
	struct workload *w = NULL;

	for (unsigned int i = 0; workload_at(i) != NULL; i++)
		w = workload_at(i);
	return w;
}

static void
look(struct workload *w, const struct host *from, const struct host *to, struct moment *m)
{
	struct impair_counters n = { 0 };
	struct workload_figures f;

	workload_figures(w, false, &f);
	*m = (struct moment){ .bytes = f.bytes, .seconds = f.seconds };
	for (unsigned int e = 0; e < from->stack->nb_engines; e++)
		m->again += counter_read(&transport_counters(engine_transport(from->stack->engines[e]))->retransmitted_packets);
	if (to->stack->impairs[to->port] != NULL)
		impair_counters(to->stack->impairs[to->port], &n);
	m->lost = n.lost;
}

/** Print a line for the time between two looks. @param scale  Gbit/s of a bar of RATE_WIDTH. */
static void
draw(const struct moment *before, const struct moment *now, double scale)
{
	static const char hashes[] = "################################################", stars[] = "****************";
	double span = now->seconds - before->seconds, rate = span > 0 ? (double)(now->bytes - before->bytes) * 8 / span / 1e9 : 0;
	uint64_t again = now->again - before->again, lost = now->lost >= before->lost ? now->lost - before->lost : 0;
	int bar = scale > 0 ? (int)(rate / scale * RATE_WIDTH + 0.5) : 0, star = 0;

	if (bar > RATE_WIDTH_MAX)
		bar = RATE_WIDTH_MAX;
	while (again >> star != 0 && star < (int)sizeof(stars) - 1)
		star++;
	printf("%7.2f  %6.2f %-*.*s %6llu %6llu %.*s\n", now->seconds, rate, RATE_WIDTH_MAX, bar, hashes, (unsigned long long)lost,
	       (unsigned long long)again, star, stars);
	fflush(stdout);
}

/** Draw the workload until it ends, with losses in its middle third. @return 0 or -1. */
static int
draw_losses(struct workload *w, const struct host *from, const struct host *to)
{
	struct moment begin, before, now = { 0 };
	double scale = 0;
	int rc = 0;

	printf("seconds  Gbit/s %*s   lost  again (each * doubles)\n", RATE_WIDTH_MAX, "");
	look(w, from, to, &begin);
	before = begin;
	for (unsigned int i = 0; i < 3 * PHASE_SAMPLES && rc == 0 && atomic_load(&w->state) == WORKLOAD_RUNNING; i++) {
		if (i == PHASE_SAMPLES)
			rc = say_and_run("set impair %s loss=0.01,seed=1", to->name);
		if (i == 2 * PHASE_SAMPLES)
			rc = say_and_run("set impair %s off", to->name);
		if (i % PHASE_SAMPLES == 0)
			look(w, from, to, &before);
		if (!shell_sleep(SAMPLE_MS))
			rc = -1;
		look(w, from, to, &now);
		if (i == 0 && now.seconds > before.seconds)
			scale = (double)(now.bytes - before.bytes) * 8 / (now.seconds - before.seconds) / 1e9;
		draw(&before, &now, scale);
		before = now;
	}
	if (rc != 0 && to->stack->impairs[to->port] != NULL)
		say_and_run("set impair %s off", to->name);
	workload_stop(w);
	if (rc == 0)
		printf("%llu packets were sent again; every WRITE has completed.\n",
		       (unsigned long long)(now.again - begin.again));
	return rc != 0 || workload_failing(w) ? -1 : 0;
}

static int
run_demo(struct call *c)
{
	const struct host *from = host_at(0), *to = host_at(hosts_count() > 1 ? 1 : 0);

	if (to->stack->impairs[to->port] != NULL)
		return call_fail(c, "%s is impaired already: `set impair all off` first", to->name);
	printf("1. RDMA WRITE, READ and SEND with random bytes and lengths; each byte is checked.\n");
	if (say_and_run("start verify duration 1 size 64k") != 0 || say_and_run("wait %s", latest()->name) != 0)
		return -1;
	printf("\n2. RDMA WRITE while one packet of a hundred is lost for %.1f s: what was lost is sent again.\n", PHASE_SAMPLES * SAMPLE_MS / 1e3);
	if (say_and_run("start write size 64k") != 0 || draw_losses(latest(), from, to) != 0)
		return -1;
	puts("\n`show stats`, `show qp` and `dump qp` say more; docs/faults.md has all that a network can do to packets.");
	return 0;
}

static const struct command table[] = {
	{ "demo", "Show traffic that is checked, then losses and the recovery from them; takes six seconds.", NULL, NULL, run_demo },
	{ 0 },
};
COMMANDS(table)
