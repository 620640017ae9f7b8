/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An application that serves programs by a stack of its own, and that another process may replace; or that replaces one:
 *
 *     suspending EAL-ARGUMENTS -- CONFIG VDEV [resume|own|deaf]
 *
 * own: it has a device open when it is asked, and closes it once it was refused. deaf: it doesn't suspend.
 */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_launch.h>

#include "uroce_verbs.h"

enum { WORKER = 1 };

static sem_t something; /* has happened */
static _Atomic bool asked, ended;

static void
on_asked(void *arg)
{
	atomic_store(&asked, true);
	sem_post(&something);
}

static void
on_signal(int sig)
{
	atomic_store(&ended, true);
	sem_post(&something);
}

static int
attach(void *vdev)
{
	return rte_dev_probe(vdev);
}

static int
run_engine(void *u)
{
	return uroce_engine_run(u, 0);
}

static bool
drive(struct uroce *u, char *err)
{
	return rte_eal_remote_launch(run_engine, u, WORKER) == 0 && uroce_control_start(u, err) == 0;
}

static void
rest(struct uroce *u)
{
	uroce_control_stop(u);
	uroce_engine_stop(u, 0);
	rte_eal_wait_lcore(WORKER);
}

/** Try to give the programs away. @return true: another process has them. */
static bool
suspend(struct uroce *u, char *err)
{
	int rc;

	rest(u);
	rc = uroce_suspend(u, err);
	if (rc == 0)
		return true;
	printf("suspending: refused: %s: %s\n", strerror(-rc), err);
	return false;
}

static int
fail(const char *what)
{
	fprintf(stderr, "suspending: %s\n", what);
	return EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	int words = rte_eal_init(argc, argv);
	char err[UROCE_ERR_BYTES] = "";
	struct uroce_params p = { .serve = true, .asked_for = on_asked };
	const char *how = words >= 0 && argc - words > 3 ? argv[words + 3] : "";
	struct ibv_context *own = NULL;
	struct uroce *u;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (words < 0 || argc - words < 3)
		return fail("suspending EAL-ARGUMENTS -- CONFIG VDEV [resume|own|deaf]");
	sem_init(&something, 0, 0);
	signal(SIGTERM, on_signal);
	p.config_file = argv[words + 1];
	if (strcmp(how, "resume") == 0)
		u = uroce_resume(&p, attach, argv[words + 2], err);
	else
		u = attach(argv[words + 2]) == 0 ? uroce_create(&p, err) : NULL;
	if (u == NULL || !drive(u, err))
		return fail(err);
	if (strcmp(how, "own") == 0)
		own = uroce_open_device(u, "uroce0");
	printf("suspending: serves\n");
	for (;;) {
		while (sem_wait(&something) != 0)
			;
		if (atomic_load(&ended))
			break;
		if (!atomic_exchange(&asked, false) || strcmp(how, "deaf") == 0)
			continue;
		if (suspend(u, err)) {
			printf("suspending: another process has the programs\n");
			return EXIT_SUCCESS;
		}
		if (own != NULL)
			ibv_close_device(own);
		own = NULL;
		if (!drive(u, err))
			return fail(err);
	}
	rest(u);
	uroce_destroy(u);
	rte_eal_cleanup();
	return EXIT_SUCCESS;
}
