/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/keeper.h"
#include "kept.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more, begun;
	bool begins;
	int *fds;
	uint32_t n, size;
} closing = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .begun = PTHREAD_COND_INITIALIZER };

/* ---- Closing ---- */
static void *
close_them(void *arg)
{
	int fd;

	pthread_mutex_lock(&closing.lock);
	closing.begins = true;
	pthread_cond_signal(&closing.begun);
	pthread_mutex_unlock(&closing.lock);
	for (;;) {
		pthread_mutex_lock(&closing.lock);
		while (closing.n == 0)
			pthread_cond_wait(&closing.more, &closing.lock);
		fd = closing.fds[--closing.n];
		pthread_mutex_unlock(&closing.lock);
		close(fd);
	}
	return arg;
}

int
kept_start(void)
{
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, close_them, NULL);

	pthread_mutex_lock(&closing.lock);
	while (rc == 0 && !closing.begins)
		pthread_cond_wait(&closing.begun, &closing.lock);
	pthread_mutex_unlock(&closing.lock);
	return rc;
}

void
close_later(int fd)
{
	int *fds;

	pthread_mutex_lock(&closing.lock);
	if (closing.n == closing.size) {
		fds = reallocarray(closing.fds, closing.size * 2 + 64, sizeof(*fds));
		if (fds != NULL) {
			closing.fds = fds;
			closing.size = closing.size * 2 + 64;
		}
	}
	/* Without memory it stays open until this process ends. */
	if (closing.n < closing.size)
		closing.fds[closing.n++] = fd;
	pthread_cond_signal(&closing.more);
	pthread_mutex_unlock(&closing.lock);
}

void
kept_forget(struct kept *k, uint32_t number)
{
	if (number >= k->size || k->fds[number] < 0)
		return;
	close_later(k->fds[number]);
	k->fds[number] = -1;
	k->n--;
}

void
kept_forget_all(struct kept *k)
{
	for (uint32_t i = 0; i < k->size; i++)
		kept_forget(k, i);
	free(k->fds);
	*k = (struct kept){ 0 };
}

bool
kept_add(struct kept *k, uint32_t number, int fd)
{
	uint32_t size = k->size;
	int *fds;

	if (number >= KEEPER_NUMBERS)
		return false;
	while (size <= number)
		size = size * 2 + 256;
	if (size != k->size) {
		fds = reallocarray(k->fds, size, sizeof(*fds));
		if (fds == NULL)
			return false;
		for (uint32_t i = k->size; i < size; i++)
			fds[i] = -1;
		k->fds = fds;
		k->size = size;
	}
	kept_forget(k, number);
	k->fds[number] = fd;
	k->n++;
	return true;
}

void
kept_give_up(struct kept *k)
{
	for (uint32_t i = 0; i < k->size; i++)
		if (k->fds[i] >= 0)
			shutdown(k->fds[i], SHUT_RDWR);
	kept_forget_all(k);
}
