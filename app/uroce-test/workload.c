/* SPDX-License-Identifier: BSD-3-Clause */
/* Workloads from start to end, and their figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "format.h"
#include "shell.h"
#include "workload.h"

enum {
	DEFAULT_SIZE = 4096,
	DEFAULT_DEPTH = 16,
	WAIT_STEP_MS = 5,
	DRAIN_SECONDS = 3, /* for operations in flight when a workload is stopped */
	LINE_BYTES = 256,
};

static const struct workload_ops *kinds[WORKLOAD_KINDS_MAX];
static unsigned int nb_kinds;
static struct workload *workloads[WORKLOADS_MAX];
static unsigned int nb_workloads, last_number, failed;
/* Protects the list, which the printing thread reads. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint period;

void
workload_add(const struct workload_ops *ops)
{
	unsigned int at = nb_kinds++;

	while (at > 0 && strcmp(kinds[at - 1]->name, ops->name) > 0) {
		kinds[at] = kinds[at - 1];
		at--;
	}
	kinds[at] = ops;
}

const struct workload_ops *
workload_kind(const char *name)
{
	for (unsigned int i = 0; i < nb_kinds; i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	return NULL;
}

const char *
workload_kind_names(unsigned int i)
{
	return i < nb_kinds ? kinds[i]->name : NULL;
}

struct workload *
workload_at(unsigned int i)
{
	return i < nb_workloads ? workloads[i] : NULL;
}

const char *
workload_names(unsigned int i)
{
	return i < nb_workloads ? workloads[i]->name : NULL;
}

struct workload *
workload_find(const char *name)
{
	for (unsigned int i = 0; name != NULL && i < nb_workloads; i++)
		if (strcmp(workloads[i]->name, name) == 0)
			return workloads[i];
	return NULL;
}

const char *
workload_state_text(const struct workload *w)
{
	static const char *const names[] = { [WORKLOAD_RUNNING] = "running", [WORKLOAD_STOPPING] = "stopping",
					     [WORKLOAD_DONE] = "done", [WORKLOAD_FAILED] = "failed" };

	return names[atomic_load(&w->state)];
}

unsigned int
workloads_failed(void)
{
	return failed;
}

/** @return the time at which the last operation of @p w ended; 0: some are in flight, or more may be begun. [any] */
static uint64_t
ended_at(const struct workload *w)
{
	uint64_t last = 0;

	if (w->threaded)
		return atomic_load(&w->thread_end_tsc);
	for (unsigned int i = 0; i < w->nb_lanes; i++) {
		const struct lane *l = w->lanes[i];

		if (l->nb_active == 0 && !workload_failing(w))
			continue;
		if (!atomic_load_explicit(&l->done, memory_order_acquire))
			return 0;
		last = RTE_MAX(last, atomic_load_explicit(&l->end_tsc, memory_order_relaxed));
	}
	return last;
}

/* ---- Figures ---- */
static void
sum(struct workload *w, struct workload_figures *f, struct hist *h)
{
	memset(h, 0, sizeof(*h));
	f->ops = atomic_load_explicit(&w->own_ops, memory_order_relaxed);
	f->bytes = atomic_load_explicit(&w->own_bytes, memory_order_relaxed);
	f->received = 0;
	if (w->ops->run != NULL)
		hist_merge(h, &w->own_hist);
	for (unsigned int i = 0; i < w->nb_lanes; i++) {
		const struct lane *l = w->lanes[i];

		for (uint32_t k = 0; k < l->nb_eps; k++) {
			f->ops += atomic_load_explicit(&l->eps[k].ops, memory_order_relaxed);
			f->bytes += atomic_load_explicit(&l->eps[k].bytes, memory_order_relaxed);
			f->received += atomic_load_explicit(&l->eps[k].received, memory_order_relaxed);
		}
		hist_merge(h, &l->hist);
	}
}

void
workload_figures(struct workload *w, bool interval, struct workload_figures *f)
{
	uint64_t announced = atomic_load(&w->end_tsc), end = announced != 0 ? announced : ended_at(w);
	uint64_t now = end != 0 ? end : rte_rdtsc(), begin = atomic_load(&w->begin_tsc);
	double hz = (double)rte_get_tsc_hz(), span;
	uint64_t ops, bytes;
	struct hist h, all;

	sum(w, f, &all);
	h = all;
	ops = f->ops;
	bytes = f->bytes;
	f->seconds = (double)(now - begin) / hz;
	span = f->seconds;
	if (interval) {
		/* The worker may have seen its end before this clock was read last. */
		now = RTE_MAX(now, w->last.tsc);
		hist_subtract(&h, &w->last.hist);
		ops -= w->last.ops;
		bytes -= w->last.bytes;
		span = (double)(now - (w->last.tsc != 0 ? w->last.tsc : begin)) / hz;
		w->last = (struct workload_look){ .tsc = now, .ops = f->ops, .bytes = f->bytes };
		w->last.hist = all;
	}
	f->ops_rate = span > 0 ? (double)ops / span : 0;
	f->bit_rate = span > 0 ? (double)bytes * 8 / span : 0;
	f->p50 = hist_percentile(&h, 0.5);
	f->p99 = hist_percentile(&h, 0.99);
	f->p999 = hist_percentile(&h, 0.999);
	f->latencies = hist_count(&h);
}

char *
workload_line(struct workload *w, const struct workload_figures *f, char *text, size_t bytes)
{
	char ops[16], bits[16], p50[16], p99[16], p999[16], more[LINE_BYTES] = "";

	if (w->ops->describe != NULL)
		w->ops->describe(w, more, sizeof(more));
	snprintf(text, bytes, "%s %s: %.1f s, %llu ops, %s ops/s, %sbit/s, latency p50 %s, p99 %s, p99.9 %s%s%s", w->name,
		 w->ops->name, f->seconds, (unsigned long long)f->ops, format_short(f->ops_rate, ops),
		 format_short(f->bit_rate, bits), format_time(f->p50, p50), format_time(f->p99, p99),
		 format_time(f->p999, p999), more[0] != '\0' ? ", " : "", more);
	return text;
}

/* ---- The thread that prints ---- */
static void *
print_lines(void *arg)
{
	struct workload_figures f;
	char line[2 * LINE_BYTES];
	unsigned int waited = 0;

	while (!shell_quitting()) {
		unsigned int every = atomic_load(&period);

		usleep(100000);
		waited += 100;
		if (every == 0 || waited < 1000 * every) {
			waited = every == 0 ? 0 : waited;
			continue;
		}
		waited = 0;
		pthread_mutex_lock(&list_lock);
		for (unsigned int i = 0; i < nb_workloads; i++)
			if (atomic_load(&workloads[i]->state) == WORKLOAD_RUNNING && ended_at(workloads[i]) == 0) {
				workload_figures(workloads[i], true, &f);
				shell_note(strcat(workload_line(workloads[i], &f, line, sizeof(line) - 1), "\n"));
			}
		pthread_mutex_unlock(&list_lock);
	}
	return NULL;
}

void
workloads_period(unsigned int seconds)
{
	static pthread_t printer;
	static bool begun;

	atomic_store(&period, seconds);
	if (seconds > 0 && !begun)
		begun = pthread_create(&printer, NULL, print_lines, NULL) == 0;
}

unsigned int
workloads_get_period(void)
{
	return atomic_load(&period);
}

/* ---- Start ---- */
static void *
run_thread(void *arg)
{
	struct workload *w = arg;

	w->ops->run(w);
	atomic_store(&w->thread_end_tsc, rte_rdtsc());
	return NULL;
}

static int
read_opts(struct workload *w, const struct call *c)
{
	const struct workload_ops *ops = w->ops;
	uint32_t size = ops->fixed_size != 0 ? ops->fixed_size : ops->size != 0 ? ops->size : DEFAULT_SIZE;

	w->o = (struct workload_opts){
		.size = (uint32_t)call_number(c, "size", size),
		.depth = (uint32_t)call_number(c, "depth", ops->depth != 0 ? ops->depth : DEFAULT_DEPTH),
		.qps = (uint32_t)call_number(c, "qps", 1),
		.rate = call_real(c, "rate", 0),
		.duration = call_real(c, "duration", 0),
		.count = call_number(c, "count", 0),
		.seed = call_number(c, "seed", 1),
		.ipv6 = call_has(c, "ipv6"),
		.connect = connect_defaults,
	};
	w->o.connect.mtu = (enum ibv_mtu)(call_choice(c, "mtu", -1) + 1);
	w->from = host_find(call_has(c, "from") ? call_text(c, "from") : host_at(0)->name);
	w->to = host_find(call_has(c, "to") ? call_text(c, "to") : host_at(hosts_count() > 1 ? 1 : 0)->name);
	if (ops->fixed_size != 0 && w->o.size != ops->fixed_size) {
		workload_fail(w, "size: '%u': an operation has %u bytes", w->o.size, ops->fixed_size);
		return -1;
	}
	return ops->setup != NULL ? ops->setup(w, c) : 0;
}

static int
launch(struct workload *w)
{
	double hz = (double)rte_get_tsc_hz();
	struct cores cores;

	workers_cores(&cores);
	w->late_before = cores.late_turns;
	if (w->o.rate > 0)
		w->tsc_per_op = hz * w->o.qps / w->o.rate;
	atomic_store(&w->begin_tsc, rte_rdtsc());
	if (w->o.duration > 0)
		w->deadline_tsc = rte_rdtsc() + (uint64_t)(w->o.duration * hz);
	if (w->ops->run != NULL) {
		w->threaded = pthread_create(&w->thread, NULL, run_thread, w) == 0;
		if (!w->threaded)
			workload_fail(w, "no thread");
		return w->threaded ? 0 : -1;
	}
	for (unsigned int i = 0; i < w->nb_lanes; i++) {
		struct lane *l = w->lanes[i];

		if (worker_attach(l->host->worker, &l->job) != 0) {
			workload_fail(w, "lcore %u has %d jobs already", worker_lcore(l->host->worker), WORKER_JOBS_MAX);
			while (i-- > 0)
				worker_detach(w->lanes[i]->host->worker, &w->lanes[i]->job);
			return -1;
		}
	}
	w->attached = true;
	return 0;
}

static void
workload_free(struct workload *w)
{
	for (unsigned int i = 0; i < w->nb_lanes; i++) {
		struct lane *l = w->lanes[i];

		for (uint32_t k = 0; k < l->nb_eps; k++) {
			free(l->eps[k].stamps);
			free(l->eps[k].phases);
			free(l->eps[k].numbers);
			free(l->eps[k].free_slots);
		}
		free(l->eps);
		free(l);
	}
	free(w);
}

/**
 * Make room in the list by forgetting the workload that ended first.
 * @return 0, or -1: all are running.
 */
static int
list_room(void)
{
	if (nb_workloads < WORKLOADS_MAX)
		return 0;
	for (unsigned int i = 0; i < nb_workloads; i++)
		if (atomic_load(&workloads[i]->end_tsc) != 0) {
			workload_forget(workloads[i]);
			return 0;
		}
	return -1;
}

int
workload_start(const struct workload_ops *ops, const struct call *c)
{
	struct workload *w = list_room() == 0 ? calloc(1, sizeof(*w)) : NULL;
	int rc;

	if (w == NULL)
		return call_fail(c, "%d workloads run already: stop one first", WORKLOADS_MAX);
	w->ops = ops;
	w->tag = (uint16_t)(last_number % UINT16_MAX + 1);
	snprintf(w->name, sizeof(w->name), "w%u", last_number + 1);
	rc = read_opts(w, c);
	if (rc == 0 && ops->run == NULL)
		rc = call_has(c, "on") ? workload_build_on(w, call_text(c, "on")) : workload_build(w);
	if (rc == 0)
		rc = launch(w);
	if (rc != 0) {
		workload_teardown(w);
		call_fail(c, "%s: %s", ops->name, w->error);
		workload_free(w);
		return -1;
	}
	last_number++;
	pthread_mutex_lock(&list_lock);
	workloads[nb_workloads++] = w;
	pthread_mutex_unlock(&list_lock);
	printf("%s started\n", w->name);
	return 0;
}

/* ---- End ---- */
/** Print a line if @p w suffered from too few cores. */
static void
print_cores(const struct workload *w)
{
	char text[CORES_TEXT_BYTES];
	struct cores cores;

	workers_cores(&cores);
	cores.late_turns -= w->late_before;
	if (cores_scarce(&cores))
		printf("%s: %s\n", w->name, cores_text(&cores, text, sizeof(text)));
}

/** Check the result, print the figures and free everything else. Call it once. */
static void
end(struct workload *w)
{
	struct workload_figures f;
	char line[2 * LINE_BYTES];
	uint64_t at;

	if (atomic_load(&w->end_tsc) != 0)
		return;
	for (unsigned int i = 0; w->attached && i < w->nb_lanes; i++)
		worker_detach(w->lanes[i]->host->worker, &w->lanes[i]->job);
	if (w->threaded)
		pthread_join(w->thread, NULL);
	if (!workload_failing(w) && w->ops->check != NULL)
		w->ops->check(w);
	at = ended_at(w);
	/* 0: operations were in flight still when it was given up. */
	atomic_store(&w->end_tsc, at != 0 ? at : rte_rdtsc());
	if (!workload_failing(w))
		atomic_store(&w->state, WORKLOAD_DONE);
	workload_figures(w, false, &f);
	puts(workload_line(w, &f, line, sizeof(line)));
	print_cores(w);
	if (workload_failing(w)) {
		failed++;
		printf("%s %s failed: %s\n", w->name, w->ops->name, w->error);
	}
	workload_teardown(w);
}

void
workloads_reap(void)
{
	for (unsigned int i = 0; i < nb_workloads; i++)
		if (atomic_load(&workloads[i]->end_tsc) == 0 && ended_at(workloads[i]) != 0)
			end(workloads[i]);
}

bool
workloads_due(void)
{
	for (unsigned int i = 0; i < nb_workloads; i++)
		if (atomic_load(&workloads[i]->end_tsc) == 0 && ended_at(workloads[i]) != 0)
			return true;
	return false;
}

void
workload_stop(struct workload *w)
{
	int running = WORKLOAD_RUNNING;

	if (atomic_load(&w->end_tsc) != 0)
		return;
	atomic_compare_exchange_strong(&w->state, &running, WORKLOAD_STOPPING);
	atomic_store(&w->stop, true);
	for (unsigned int ms = 0; ended_at(w) == 0 && (w->threaded || ms < 1000 * DRAIN_SECONDS); ms += WAIT_STEP_MS)
		usleep(1000 * WAIT_STEP_MS);
	if (ended_at(w) == 0)
		workload_fail(w, "operations that had begun didn't end within %d s: `show qp` tells why", DRAIN_SECONDS);
	end(w);
}

bool
workload_wait(struct workload *w, double seconds)
{
	const uint64_t until = rte_rdtsc() + (uint64_t)(seconds * (double)rte_get_tsc_hz());

	while (atomic_load(&w->end_tsc) == 0 && ended_at(w) == 0) {
		if ((seconds > 0 && rte_rdtsc() >= until) || !shell_sleep(WAIT_STEP_MS))
			return false;
	}
	end(w);
	return true;
}

void
workload_forget(struct workload *w)
{
	pthread_mutex_lock(&list_lock);
	for (unsigned int i = 0; i < nb_workloads; i++)
		if (workloads[i] == w) {
			memmove(&workloads[i], &workloads[i + 1], (nb_workloads - i - 1) * sizeof(w));
			nb_workloads--;
			break;
		}
	pthread_mutex_unlock(&list_lock);
	workload_free(w);
}

void
workloads_stop_all(void)
{
	for (unsigned int i = 0; i < nb_workloads; i++)
		workload_stop(workloads[i]);
}

void
workloads_finish(void)
{
	for (unsigned int i = 0; i < nb_workloads; i++) {
		struct workload *w = workloads[i];

		if (w->o.duration > 0 || w->o.count > 0)
			workload_wait(w, 0);
		workload_stop(w);
	}
}
