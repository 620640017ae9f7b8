/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/closer_priv.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

/** A descriptor and the user who sent it. */
struct item {
	int fd;
	uid_t uid;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct item *queue;
static uint32_t nb_queued, room;
static uid_t busy[CLOSER_MAX_THREADS]; /* the users for whom threads are inside close() */
static unsigned int nb_busy;

/** A place for a thread. Its stack is ours: the C library keeps those that it made, one for each thread there ever was. */
struct worker {
	pthread_t thread;
	enum { WORKER_NONE, WORKER_RUNS, WORKER_ENDED /**< to be joined */ } state;
};
static struct worker workers[CLOSER_MAX_THREADS];
static char stacks[CLOSER_MAX_THREADS][CLOSER_STACK_BYTES] __attribute__((aligned(CLOSER_STACK_BYTES)));
static unsigned int nb_threads; /* workers that run */

static unsigned int
threads_of(uid_t uid)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < nb_busy; i++)
		n += busy[i] == uid;
	return n;
}

/** Take the oldest descriptor whose user has a thread left. @return false: there is none. */
static bool
take(struct item *out)
{
	for (uint32_t i = 0; i < nb_queued; i++) {
		if (threads_of(queue[i].uid) >= CLOSER_USER_THREADS)
			continue;
		*out = queue[i];
		nb_queued--;
		memmove(&queue[i], &queue[i + 1], (nb_queued - i) * sizeof(*queue));
		return true;
	}
	return false;
}

static void *
close_queued(void *arg)
{
	static const struct linger off = { 0 };
	struct worker *self = arg;
	struct item it;

	pthread_mutex_lock(&lock);
	while (take(&it)) {
		busy[nb_busy++] = it.uid;
		pthread_mutex_unlock(&lock);
		setsockopt(it.fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
		close(it.fd);
		pthread_mutex_lock(&lock);
		for (unsigned int i = 0; i < nb_busy; i++) {
			if (busy[i] == it.uid) {
				busy[i] = busy[--nb_busy];
				break;
			}
		}
	}
	nb_threads--;
	self->state = WORKER_ENDED;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/** @return a place that no thread uses. One that has said so ends without waiting for anything. */
static struct worker *
free_worker(void)
{
	for (unsigned int i = 0; i < CLOSER_MAX_THREADS; i++) {
		if (workers[i].state == WORKER_RUNS)
			continue;
		if (workers[i].state == WORKER_ENDED)
			pthread_join(workers[i].thread, NULL);
		workers[i].state = WORKER_NONE;
		return &workers[i];
	}
	return NULL;
}

/** The threads block signals, which the control thread handles. */
static void
start_thread(void)
{
	struct worker *w = free_worker();
	sigset_t all, before;
	pthread_attr_t attr;

	if (w == NULL)
		return;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stacks[w - workers], CLOSER_STACK_BYTES);
	sigfillset(&all);
	/* By this one uroced takes the capabilities from each thread (app/uroced/identity.c); a daemon that resumes has this thread before. */
	sigdelset(&all, SIGRTMAX);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&w->thread, &attr, close_queued, w) == 0) {
		w->state = WORKER_RUNS;
		nb_threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

void
closer_close(int fd, uid_t uid)
{
	struct item *grown;

	pthread_mutex_lock(&lock);
	if (nb_queued == room) {
		grown = reallocarray(queue, room == 0 ? 64 : (size_t)room * 2, sizeof(*queue));
		if (grown == NULL) {
			pthread_mutex_unlock(&lock);
			close(fd);
			return;
		}
		queue = grown;
		room = room == 0 ? 64 : room * 2;
	}
	queue[nb_queued++] = (struct item){ fd, uid };
	/* A thread that isn't inside close() looks at the queue again before it ends. */
	if (nb_threads == nb_busy && threads_of(uid) < CLOSER_USER_THREADS)
		start_thread();
	pthread_mutex_unlock(&lock);
}

unsigned int
closer_message_fds(struct msghdr *msg, int *fds)
{
	unsigned int n = 0;
	size_t bytes;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg != NULL; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		bytes = cmsg->cmsg_len - CMSG_LEN(0);
		memcpy(fds + n, CMSG_DATA(cmsg), bytes);
		n += bytes / sizeof(int);
		UROCE_ASSERT(n <= CLOSER_MESSAGE_FDS);
	}
	return n;
}

/** @return true if there are messages that nobody has received. Nothing more can arrive. */
static bool
has_unread(int sock)
{
	struct msghdr msg = { 0 };
	int one = 1;

	/* With credentials an empty message can be told from the end of the connection: they don't fit. */
	return setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) != 0 ||
	       (recvmsg(sock, &msg, MSG_DONTWAIT | MSG_PEEK) >= 0 && (msg.msg_flags & MSG_CTRUNC) != 0);
}

void
closer_close_socket(int sock, uid_t uid)
{
	shutdown(sock, SHUT_RDWR);
	/* The descriptors in messages that were never received are closed with the socket, which may take long. */
	if (has_unread(sock))
		closer_close(sock, uid);
	else
		close(sock);
}

unsigned int
closer_pending_of(uid_t uid)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = threads_of(uid);
	for (uint32_t i = 0; i < nb_queued; i++)
		n += queue[i].uid == uid;
	pthread_mutex_unlock(&lock);
	return n;
}

unsigned int
closer_pending(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = nb_queued + nb_busy;
	pthread_mutex_unlock(&lock);
	return n;
}

void
closer_refuse_rights(int sock, bool refuse)
{
	int pass = !refuse;

	/* Unknown before Linux 6.16: descriptors then come, and wait to be closed. */
	setsockopt(sock, SOL_SOCKET, CLOSER_SO_PASSRIGHTS, &pass, sizeof(pass));
}
