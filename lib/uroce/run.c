/* SPDX-License-Identifier: BSD-3-Clause */
/* Who drives a stack: turns and loops of engines and of the control, and what of it excludes each other. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_lcore.h>

#include "base/dpdk_compat.h"
#include "control/observe/sysfs.h"
#include "uroce/stack.h"

struct stack_list stacks = TAILQ_HEAD_INITIALIZER(stacks);
pthread_mutex_t stacks_lock = PTHREAD_MUTEX_INITIALIZER;

/** Controls that have a thread. */
static _Atomic unsigned int threads;

unsigned int
uroce_engine_count(const struct uroce *u)
{
	return u->nb_engines;
}

int
uroce_engine_poll(struct uroce *u, unsigned int engine)
{
	uint32_t work;

	if (unlikely(engine >= u->nb_engines))
		return -EINVAL;
	if (unlikely(atomic_load_explicit(&u->running[engine], memory_order_relaxed) != 0))
		return -EBUSY;
	work = engine_turn(u->engines[engine]);
	return (int)RTE_MIN(work, (uint32_t)INT_MAX);
}

/** Find the ports of @p n stacks whose peers are among them too. */
static void
find_joined(struct uroce *const *of, unsigned int n)
{
	struct net_port *ports[ENGINE_LOOP_MAX * UROCE_MAX_PORTS];
	unsigned int nb = 0;

	for (unsigned int i = 0; i < n; i++)
		for (uint16_t k = 0; k < of[i]->nb_ports; k++)
			ports[nb++] = of[i]->ports[k];
	for (unsigned int i = 0; i < nb; i++)
		for (unsigned int k = 0; k < nb; k++)
			if (i != k && ports[i]->wire[0] != '\0' && strcmp(ports[i]->wire, ports[k]->wire) == 0)
				atomic_store(&ports[i]->joined, true);
}

struct engine_loop *
stacks_loop_create(struct uroce *const *of, unsigned int n, unsigned int engine)
{
	struct engine *engines[ENGINE_LOOP_MAX];
	struct engine_loop *l;
	unsigned int taken = 0;
	int rc = n == 0 || n > ENGINE_LOOP_MAX ? EINVAL : 0;

	for (; taken < n && rc == 0; taken += rc == 0) {
		if (engine >= of[taken]->nb_engines)
			rc = EINVAL;
		else if (atomic_exchange(&of[taken]->running[engine], 1) != 0)
			rc = EBUSY;
		else
			engines[taken] = of[taken]->engines[engine];
	}
	if (rc == 0) {
		find_joined(of, n);
		l = engine_loop_create(engines, n);
		if (l != NULL)
			return l;
		rc = errno;
	}
	while (taken-- > 0)
		atomic_store(&of[taken]->running[engine], 0);
	errno = rc;
	return NULL;
}

void
stacks_loop_destroy(struct engine_loop *l, struct uroce *const *of, unsigned int n, unsigned int engine)
{
	if (l == NULL)
		return;
	engine_loop_destroy(l);
	for (unsigned int i = 0; i < n; i++)
		atomic_store(&of[i]->running[engine], 0);
}

int
uroce_engine_run(struct uroce *u, unsigned int engine)
{
	struct engine_loop *l = stacks_loop_create(&u, 1, engine);

	if (l == NULL)
		return -errno;
	engine_loop_run(l, 0);
	stacks_loop_destroy(l, &u, 1, engine);
	return 0;
}

void
stacks_reload(void *but)
{
	struct uroce *u;

	pthread_mutex_lock(&stacks_lock);
	TAILQ_FOREACH(u, &stacks, link) {
		if (u == but || u->control == NULL)
			continue;
		control_lock(u->control);
		control_reload(u->control);
		control_unlock(u->control);
	}
	pthread_mutex_unlock(&stacks_lock);
}

void
uroce_engine_stop(struct uroce *u, unsigned int engine)
{
	if (engine < u->nb_engines)
		engine_stop(u->engines[engine]);
}

int
stack_publish(struct uroce *u, char *err)
{
	int rc;

	if (!u->bound || u->published)
		return 0;
	/* A program that finds the socket must find the files too. */
	sysfs_write(u->control);
	rc = u->resumed ? 0 : control_socket_publish(u->conf.socket, err);
	u->published = rc == 0;
	return -rc;
}

/** Become the control's driver. @return 0 or a negative errno value with a message. */
static int
take_control(struct uroce *u, enum stack_driver who, char *err)
{
	uint32_t nobody = DRIVER_NONE;
	int rc;

	if (u->control == NULL || u->suspended) {
		snprintf(err, UROCE_ERR_BYTES, "the stack is %s", u->suspended ? "suspended" : "shut down");
		return -ESHUTDOWN;
	}
	if (!atomic_compare_exchange_strong(&u->driver, &nobody, who)) {
		snprintf(err, UROCE_ERR_BYTES, "another thread drives the stack's control already");
		return -EBUSY;
	}
	rc = stack_publish(u, err);
	if (rc != 0)
		atomic_store(&u->driver, DRIVER_NONE);
	return rc;
}

int
uroce_control_poll(struct uroce *u)
{
	char err[UROCE_ERR_BYTES];
	uint32_t work;
	int rc = take_control(u, DRIVER_POLL, err);

	if (rc != 0)
		return rc;
	work = control_turn(u->control, 0);
	atomic_store(&u->driver, DRIVER_NONE);
	return (int)RTE_MIN(work, (uint32_t)INT_MAX);
}

int
uroce_control_run(struct uroce *u, char *err)
{
	int rc = take_control(u, DRIVER_RUN, err);

	if (rc != 0)
		return rc;
	atomic_fetch_add(&threads, 1);
	control_run(u->control);
	atomic_fetch_sub(&threads, 1);
	atomic_store(&u->driver, DRIVER_NONE);
	return 0;
}

static dpdk_thread_rc
control_thread(void *arg)
{
	struct uroce *u = arg;

	control_run(u->control);
	return 0;
}

int
uroce_control_start(struct uroce *u, char *err)
{
	sigset_t all, before;
	int rc = take_control(u, DRIVER_THREAD, err);

	if (rc != 0)
		return rc;
	/* Signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = dpdk_control_thread(&u->thread, "uroce-control", control_thread, u);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	atomic_fetch_add(&threads, rc == 0);
	if (rc != 0) {
		snprintf(err, UROCE_ERR_BYTES, "no thread for the control: %s", strerror(abs(rc)));
		atomic_store(&u->driver, DRIVER_NONE);
		return -abs(rc);
	}
	return 0;
}

void
uroce_control_stop(struct uroce *u)
{
	uint32_t driver = atomic_load(&u->driver);

	if (driver != DRIVER_THREAD && driver != DRIVER_RUN)
		return;
	control_stop(u->control);
	if (driver != DRIVER_THREAD)
		return;
	rte_thread_join(u->thread, NULL);
	atomic_fetch_sub(&threads, 1);
	atomic_store(&u->driver, DRIVER_NONE);
}

bool
stacks_have_thread(void)
{
	return atomic_load(&threads) > 0;
}

uint32_t
stacks_turn(void)
{
	uint32_t work = 0;
	struct uroce *u;

	/* The thread that has the lock gives these turns already. */
	if (pthread_mutex_trylock(&stacks_lock) != 0)
		return 0;
	TAILQ_FOREACH(u, &stacks, link) {
		int rc = uroce_control_poll(u);

		work += rc > 0 ? (uint32_t)rc : 0;
		for (unsigned int i = 0; i < u->nb_engines; i++)
			work += engine_try_turn(u->engines[i]);
	}
	pthread_mutex_unlock(&stacks_lock);
	return work;
}
