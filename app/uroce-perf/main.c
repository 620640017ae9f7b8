/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "base/own_dirs.h"
#include "host.h"
#include "lane.h"

enum { MAX_EAL_ARGS = 16, EAL_ARG_BYTES = 64, EAL_MEGABYTES = 384, SPARE_MEGABYTES = 128 };

/** @return the index of "--" in @p argv, or argc. */
static int
find_separator(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return i;
	return argc;
}

/**
 * Get the first two CPUs that this process may use.
 * @return how many there are, at most 2.
 */
static unsigned int
two_cpus(unsigned int cpus[2])
{
	unsigned int n = 0;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (unsigned int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &set))
			cpus[n++] = i;
	return n;
}

static unsigned long
hugepages(const char *what)
{
	char path[96];
	unsigned long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-2048kB/%s", what);
	f = fopen(path, "r");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%lu", &n) != 1)
		n = 0;
	fclose(f);
	return n;
}

/** @return the number of 2 MiB pages that are neither in use nor reserved. */
static unsigned long
free_hugepages(void)
{
	unsigned long unused = hugepages("free_hugepages"), promised = hugepages("resv_hugepages");

	return unused > promised ? unused - promised : 0;
}

struct eal_args {
	int n;
	char *argv[MAX_EAL_ARGS];
	char text[MAX_EAL_ARGS][EAL_ARG_BYTES];
};

__attribute__((format(printf, 2, 3))) static void
add(struct eal_args *a, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(a->text[a->n], EAL_ARG_BYTES, format, ap);
	va_end(ap);
	a->argv[a->n] = a->text[a->n];
	a->n++;
}

/** The arguments if no EAL option is given: two cores, only our own devices, hugepages if there are enough. */
static void
default_eal_args(struct eal_args *a)
{
	unsigned int cpus[2] = { 0, 0 };

	if (two_cpus(cpus) == 1)
		cpus[1] = cpus[0];
	add(a, "uroce-perf");
	add(a, "--lcores=0@%u,1@%u", cpus[0], cpus[1]);
	add(a, "--file-prefix=uroce-perf-%d", (int)getpid());
	add(a, "--no-pci");
	add(a, "--no-telemetry");
	add(a, "--log-level=lib.eal:warning");
	add(a, "-m");
	add(a, "%d", EAL_MEGABYTES);
	if (free_hugepages() * 2 >= EAL_MEGABYTES + SPARE_MEGABYTES) {
		add(a, "--in-memory");
	} else {
		add(a, "--no-huge");
		add(a, "--no-shconf");
	}
}

static bool
eal_start(int argc, char **argv)
{
	static struct eal_args args;
	int rc;

	if (argc > 1) {
		rc = rte_eal_init(argc, argv);
	} else {
		default_eal_args(&args);
		rc = rte_eal_init(args.n, args.argv);
		if (rc >= 0)
			own_dirs_clean(rte_eal_get_runtime_dir(), "uroce-perf-");
	}
	if (rc >= 0)
		return true;
	fprintf(stderr, "uroce-perf: EAL doesn't start: %s\n", rte_strerror(rte_errno));
	return false;
}

int
main(int argc, char **argv)
{
	int sep = find_separator(argc, argv), first = 1, rc;
	struct shm_control *shm = NULL;
	static struct perf_opts o;
	static struct impair_vdevs vdevs;
	unsigned int cpus[2];
	char err[256];

	/* Our options follow "--". If there are no others they may do without it. */
	while (first < sep && !perf_is_option(argv[first]))
		first++;
	if (first == 1 && sep == argc) {
		sep = 0;
	} else if (first < sep) {
		fprintf(stderr, "uroce-perf: %s must stand behind a -- that ends EAL's options\n", argv[first]);
		return EXIT_FAILURE;
	}
	rc = sep < argc ? perf_opts_parse(argc - sep, argv + sep, &o) : perf_opts_parse(1, argv, &o);
	if (rc != 0)
		return rc > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	if (impair_vdevs_take(&sep, argv, &vdevs, err, sizeof(err)) != 0) {
		fprintf(stderr, "uroce-perf: %s\n", err);
		return EXIT_FAILURE;
	}
	host_set_impairs(&vdevs);
	if (o.test == PERF_MEMCPY)
		return baseline_memcpy(&o);
	if (o.test == PERF_RING) {
		if (two_cpus(cpus) == 2)
			return baseline_ring(&o, cpus);
		fprintf(stderr, "uroce-perf: --test ring needs two CPUs\n");
		return EXIT_FAILURE;
	}
	if (!arena_open(arena_need(&o)))
		return EXIT_FAILURE;
	/* Fork before EAL creates threads and devices. */
	if (o.role == PERF_SHM && (shm = shm_prepare(&o)) == NULL)
		return EXIT_FAILURE;
	/*
	 * rte_eal_cleanup() isn't called: in DPDK 22.11 it unmaps memory that EAL's interrupt thread may still be
	 * reading after a memif disconnect. Nothing is left behind that it would remove.
	 */
	if (!eal_start(sep, argv))
		rc = EXIT_FAILURE;
	else if (o.role == PERF_SHM)
		rc = run_shm(&o, shm);
	else
		rc = o.role == PERF_PAIR ? run_pair(&o) : run_tcp(&o);
	if (sep <= 1)
		own_dir_remove(rte_eal_get_runtime_dir());
	else
		rmdir(rte_eal_get_runtime_dir()); /* another program of that --file-prefix may have files there */
	return rc;
}
