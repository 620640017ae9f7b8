/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/closer_priv.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *queue;
static uint32_t nb_queued, room;
static unsigned int nb_threads;
static unsigned int nb_busy; /* threads inside close() */

static void *
close_queued(void *arg)
{
	static const struct linger off = { 0 };
	int fd;

	pthread_mutex_lock(&lock);
	while (nb_queued > 0) {
		fd = queue[--nb_queued];
		nb_busy++;
		pthread_mutex_unlock(&lock);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
		close(fd);
		pthread_mutex_lock(&lock);
		nb_busy--;
	}
	nb_threads--;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/** The threads block signals, which the control thread handles. */
static int
start_thread(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr,
				  CLOSER_STACK_BYTES > PTHREAD_STACK_MIN ? CLOSER_STACK_BYTES : PTHREAD_STACK_MIN);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, close_queued, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

void
closer_close(int fd)
{
	int *grown;

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
	queue[nb_queued++] = fd;
	/* A thread that isn't inside close() looks at the queue again before it ends. */
	if (nb_threads == nb_busy && nb_threads < CLOSER_MAX_THREADS && start_thread() == 0)
		nb_threads++;
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

void
closer_close_socket(int sock)
{
	char space[CMSG_SPACE(CLOSER_MESSAGE_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))]
		__attribute__((aligned(8)));
	int fds[CLOSER_MESSAGE_FDS], one = 1;
	struct msghdr msg;
	unsigned int i, n;

	/* Nothing more can arrive from here on. What has arrived can still be received. */
	shutdown(sock, SHUT_RDWR);
	/* With credentials an empty message can be distinguished from the end of the connection, which has none. */
	if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) != 0)
		goto end;
	for (;;) {
		msg = (struct msghdr){ .msg_control = space, .msg_controllen = sizeof(space) };
		if (recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0 || msg.msg_controllen == 0)
			break;
		n = closer_message_fds(&msg, fds);
		for (i = 0; i < n; i++)
			closer_close(fds[i]);
	}
end:
	close(sock);
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
