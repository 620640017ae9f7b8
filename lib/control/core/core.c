/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

#include "control/core/control_priv.h"

RTE_LOG_REGISTER(control_logtype, uroce.control, INFO);

uint64_t
control_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void
control_lock(struct control *c)
{
	pthread_mutex_lock(&c->lock);
}

void
control_unlock(struct control *c)
{
	pthread_mutex_unlock(&c->lock);
}

void
control_thread_signals(void)
{
	sigset_t set;

	sigfillset(&set);
	/* Signals for faults of the thread itself: a page of a program may go away while it is accessed. */
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGSEGV);
	/* By this one uroced takes the capabilities from each thread (app/uroced/identity.c). */
	sigdelset(&set, SIGRTMAX);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

int
control_watch(struct control *c, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	return epoll_ctl(c->epfd, EPOLL_CTL_ADD, w->fd, &ev) == 0 ? 0 : errno;
}

void
control_unwatch(struct control *c, struct watch *w)
{
	epoll_ctl(c->epfd, EPOLL_CTL_DEL, w->fd, NULL);
}
