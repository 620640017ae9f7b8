/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_common.h>

#include "keeper_talk.h"
#include "survive.h"
#include "uroced.h"

enum {
	READY_FD = 3,
	TRIES = 10,
	TRY_US = 100000,
	FIRST_NUMBER = 1024, /* below are numbers of what isn't named in records */
};
static_assert((int)OPTIONS_MAX_STACKS < (int)FIRST_NUMBER, "the checkpoint of a stack has the number of the stack");

/* ---- Finding the keeper ---- */
/** In the child. */
static void
become_keeper(int ready, const char *path)
{
	static char program[4096];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash = n > 0 ? strrchr(program, '/') : NULL;
	char fd[16];

	setsid();
	/* The daemon may be in a hurry (nice.h). */
	setpriority(PRIO_PROCESS, 0, 0);
	if (dup2(ready, READY_FD) < 0)
		_exit(EXIT_FAILURE);
	/* Beside a daemon that runs it begins after EAL, whose descriptors are open over an exec(): it would keep hugepages and ports. */
	if (syscall(SYS_close_range, READY_FD + 1, ~0u, 0) != 0)
		_exit(EXIT_FAILURE);
	snprintf(fd, sizeof(fd), "%d", READY_FD);
	/* Beside this program: installed, or as it was built. */
	if (slash != NULL && (size_t)snprintf(slash, sizeof(program) - (size_t)(slash - program), "/uroce-keeper") < sizeof(program))
		execl(program, "uroce-keeper", "--ready", fd, path, (char *)NULL);
	if (slash != NULL && (size_t)snprintf(slash, sizeof(program) - (size_t)(slash - program), "/../uroce-keeper/uroce-keeper") < sizeof(program))
		execl(program, "uroce-keeper", "--ready", fd, path, (char *)NULL);
	execlp("uroce-keeper", "uroce-keeper", "--ready", fd, path, (char *)NULL);
	fprintf(stderr, "uroced: uroce-keeper: %s\n", strerror(errno));
	_exit(EXIT_FAILURE);
}

/** Start a keeper. @return a connection to it, or -1 with errno set. */
static int
start_keeper(const char *path)
{
	struct pollfd p = { .events = POLLIN };
	int ends[2], rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
		become_keeper(ends[1], path);
	close(ends[1]);
	p.fd = ends[0];
	/* It closes its end when it listens, or ends. */
	do
		rc = pid > 0 ? poll(&p, 1, KEEPER_ANSWER_MS) : -1;
	while (rc < 0 && errno == EINTR);
	close(ends[0]);
	if (rc == 0)
		errno = ETIMEDOUT;
	return rc == 1 ? keeper_connect(path) : -1;
}

int
survivor_take(struct survivor *s)
{
	int fds[KEEPER_BATCH];
	struct keeper_given g;
	uint32_t nb, left;
	ssize_t n = keeper_hear(s->sock, &s->state, sizeof(s->state), fds, &nb);

	if (n <= 0)
		return n < 0 ? errno : EPIPE;
	if (n != (ssize_t)sizeof(s->state) || nb != 0 || s->state.magic != KEEPER_MAGIC || s->state.version != KEEPER_VERSION ||
	    s->state.nb_fds > KEEPER_NUMBERS)
		return EPROTO;
	s->room = s->state.room;
	for (left = s->state.nb_fds; left > 0; left -= nb) {
		n = keeper_hear(s->sock, &g, sizeof(g), fds, &nb);
		if (n < 0)
			return errno;
		if (n != (ssize_t)sizeof(g) || g.magic != KEEPER_MAGIC || g.n != nb || nb == 0 || nb > left)
			return EPROTO;
		for (uint32_t i = 0; i < nb; i++) {
			uint32_t number = g.numbers[i], size = RTE_MAX(s->nb_given, (uint32_t)FIRST_NUMBER);
			int *given;

			if (number >= KEEPER_NUMBERS)
				return EPROTO;
			while (size <= number)
				size *= 2;
			given = size != s->nb_given ? reallocarray(s->given, size, sizeof(*given)) : s->given;
			if (given == NULL)
				return ENOMEM;
			s->given = given;
			while (s->nb_given < size)
				s->given[s->nb_given++] = -1;
			s->given[number] = fds[i];
		}
	}
	return 0;
}

int
survivor_begin(struct survivor *s, const char *socket, unsigned int nb_stacks, char *path)
{
	*s = (struct survivor){ .sock = -1, .next = FIRST_NUMBER, .nb_stacks = nb_stacks };
	atomic_init(&s->incomplete, nb_stacks);
	pthread_mutex_init(&s->lock, NULL);
	if ((size_t)snprintf(path, SURVIVOR_PATH_BYTES, "%s" KEEPER_SUFFIX, socket) >= SURVIVOR_PATH_BYTES)
		return complain("daemon.survive_crash: %s" KEEPER_SUFFIX ": longer than a unix socket's path may be", socket);
	return 0;
}

/** @return 0 or an errno value. */
static int
greet(struct survivor *s, uint32_t seconds)
{
	const struct keeper_req hello = { .magic = KEEPER_MAGIC, .op = KEEPER_HELLO, .seconds = seconds, .version = KEEPER_VERSION };

	return s->sock < 0 ? errno : keeper_say(s->sock, &hello, -1);
}

static void
hang_up(struct survivor *s)
{
	if (s->sock >= 0)
		close(s->sock);
	s->sock = -1;
}

void
survivor_wait(struct survivor *s, const char *socket, uint32_t seconds, unsigned int nb_stacks)
{
	char path[SURVIVOR_PATH_BYTES];

	if (survivor_begin(s, socket, nb_stacks, path) != 0)
		return;
	s->sock = keeper_connect(path);
	if (greet(s, seconds) != 0)
		hang_up(s);
}

int
survivor_open(struct survivor *s, const char *socket, uint32_t seconds, unsigned int nb_stacks)
{
	char path[SURVIVOR_PATH_BYTES];
	int rc = 0;

	if (s->sock >= 0 && survivor_take(s) == 0)
		return 0;
	hang_up(s);
	if (survivor_begin(s, socket, nb_stacks, path) != 0)
		return -1;
	for (unsigned int i = 0; i < TRIES; i++) {
		s->sock = keeper_connect(path);
		if (s->sock < 0)
			s->sock = start_keeper(path);
		rc = greet(s, seconds);
		if (rc == 0)
			rc = survivor_take(s);
		if (rc == 0)
			return 0;
		hang_up(s);
		/* That of a daemon that has ended is about to end. */
		if (rc != EPIPE && rc != ECONNRESET)
			break;
		usleep(TRY_US);
	}
	return complain("daemon.survive_crash: the keeper at %s can't be used: %s. Programs will not survive a crash of this daemon", path, strerror(rc));
}

/* ---- The daemon before ---- */
bool
survivor_has_programs(const struct survivor *s)
{
	return s->sock >= 0 && s->state.nb_fds > 0;
}

static void
told(void *arg, const char *text)
{
	complain("after a crash: %s", text);
}

/** Append the records of all stacks. @return 0 or an errno value. */
static int
assemble(struct survivor *s, struct stream_out *o)
{
	const struct record_head end = { 0 };
	struct checkpoint_found found;
	unsigned int nb = 0;
	int rc = 0;

	while (nb < OPTIONS_MAX_STACKS && nb < s->nb_given && s->given[nb] >= 0)
		nb++;
	suspend_put_process(o, nb);
	for (unsigned int i = 0; i < nb && rc == 0; i++)
		rc = checkpoint_read(s->given[i], o, &found, told, NULL);
	stream_put(o, RECORD_END, &end, sizeof(end), NULL, 0);
	return rc == 0 && o->failed ? ENOMEM : rc;
}

int
survivor_read(struct survivor *s, struct stream_in *in, char *text)
{
	struct stream_out o = { 0 };
	int rc;

	if (s->state.crashes > KEEPER_CRASHES) {
		snprintf(text, TALK_TEXT_BYTES, "%u daemons in a row have crashed on them", s->state.crashes);
		return -1;
	}
	rc = assemble(s, &o);
	if (rc != 0) {
		stream_free(&o);
		snprintf(text, TALK_TEXT_BYTES, "%s", rc == EPROTO ? "what is left isn't of this version, or is damaged" : strerror(rc));
		return -1;
	}
	*in = (struct stream_in){ .bytes = o.bytes, .n = o.n, .fds = s->given, .nb_fds = s->nb_given };
	s->given = NULL;
	s->nb_given = 0;
	return 0;
}

void
survivor_take_back(struct survivor *s, struct stream_in *in)
{
	s->given = in->fds;
	s->nb_given = in->nb_fds;
	in->fds = NULL;
	in->nb_fds = 0;
}

void
survivor_give_up(struct survivor *s)
{
	const struct keeper_req q = { .magic = KEEPER_MAGIC, .op = KEEPER_COMMIT };

	/* The listening socket, too: this daemon makes another one of that name. */
	for (uint32_t i = 0; i < s->nb_given; i++)
		if (s->given[i] >= 0) {
			shutdown(s->given[i], SHUT_RDWR);
			close(s->given[i]);
		}
	free(s->given);
	s->given = NULL;
	s->nb_given = 0;
	(void)keeper_say(s->sock, &q, -1);
}

/* ---- This daemon ---- */
/** Say something that has no answer. @return 0 or an errno value; 0 also if there is no keeper any more. */
static int
tell(struct survivor *s, enum keeper_op op, uint32_t number, int fd)
{
	const struct keeper_req q = { .magic = KEEPER_MAGIC, .op = op, .number = number };
	int rc;

	if (atomic_load(&s->gone))
		return 0;
	rc = keeper_say(s->sock, &q, fd);
	if (rc != 0 && !atomic_exchange(&s->gone, true))
		complain("the keeper has gone (%s): no program survives a crash of this daemon, which must be started again for that", strerror(rc));
	return 0;
}

static int
host_begin(void *arg, int fd)
{
	const struct survivor_stack *k = arg;

	return tell(k->survivor, KEEPER_KEEP, k->number, fd);
}

static int
host_keep(void *arg, int fd, uint32_t *number)
{
	struct survivor *s = ((const struct survivor_stack *)arg)->survivor;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (s->nb_free == 0 && s->next == KEEPER_NUMBERS)
		rc = ENFILE;
	/* The keeper has those of the daemon before as well, until all is complete. */
	else if (s->used + OPTIONS_MAX_STACKS >= s->room)
		rc = ENFILE;
	else
		*number = s->nb_free > 0 ? s->free[--s->nb_free] : s->next++;
	s->used += rc == 0;
	pthread_mutex_unlock(&s->lock);
	return rc == 0 ? tell(s, KEEPER_KEEP, *number, fd) : rc;
}

static void
host_forget(void *arg, uint32_t number)
{
	struct survivor *s = ((const struct survivor_stack *)arg)->survivor;
	uint32_t *numbers;

	tell(s, KEEPER_FORGET, number, -1);
	pthread_mutex_lock(&s->lock);
	s->used--;
	if (s->nb_free == s->room_free) {
		numbers = reallocarray(s->free, s->room_free * 2 + 256, sizeof(*numbers));
		if (numbers != NULL) {
			s->free = numbers;
			s->room_free = s->room_free * 2 + 256;
		}
	}
	/* Without memory the number is never used again. */
	if (s->nb_free < s->room_free)
		s->free[s->nb_free++] = number;
	pthread_mutex_unlock(&s->lock);
}

static void
host_complete(void *arg)
{
	struct survivor *s = ((const struct survivor_stack *)arg)->survivor;

	if (atomic_fetch_sub(&s->incomplete, 1) == 1)
		tell(s, KEEPER_COMMIT, 0, -1);
}

const struct checkpoint_host *
survivor_host(struct survivor *s, unsigned int number)
{
	struct survivor_stack *k = &s->stacks[number];

	if (s->sock < 0)
		return NULL;
	*k = (struct survivor_stack){ .survivor = s, .number = number };
	k->host = (struct checkpoint_host){ .begin = host_begin, .keep = host_keep, .forget = host_forget, .complete = host_complete, .arg = k };
	return &k->host;
}

void
survivor_raise(struct survivor *s)
{
	int fd = s->sock >= 0 ? fcntl(s->sock, F_DUPFD_CLOEXEC, fds_usual() - 1) : -1;

	if (fd < 0)
		return;
	close(s->sock);
	s->sock = fd;
}

void
survivor_end(struct survivor *s)
{
	if (s->sock < 0 || atomic_load(&s->gone))
		return;
	tell(s, KEEPER_END, 0, -1);
	atomic_store(&s->gone, true);
}
