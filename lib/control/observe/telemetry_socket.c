/* SPDX-License-Identifier: BSD-3-Clause */
/* The telemetry socket: clients, what they may ask, and the thread that serves them. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bsd/string.h>
#include <rte_common.h>

#include "base/socket_path.h"
#include "control/observe/telemetry_socket_priv.h"
#include "ring/abi.h"

enum {
	PATH_BYTES = 108,        /* of sun_path */
	FDS = TEL_CLIENTS_MAX + 3,
	FD_STOP = TEL_CLIENTS_MAX, FD_LISTEN, FD_UPSTREAM,
	TICK_MS = 500,           /* how often time limits are looked at */
	REST_MOST_US = 20000,
	KEY_BYTES = 64,
};

struct client {
	int fd;              /* -1: free */
	uid_t uid;
	uint64_t asked_ns;   /* when it last sent a command, or came */
	bool waiting;        /* its command has to be passed on */
	char command[TEL_COMMAND_BYTES];
};

struct telemetry_socket {
	struct control *control;
	unsigned int number; /* of the stack, in commands of DPDK's telemetry */
	int listen_fd, stop_fd;
	struct tel_upstream upstream;
	int asking;          /* client whose command is on its way; -1: none. If it has gone meanwhile: GONE */
	uint64_t asked_ns;   /* since when */
	unsigned int turn;   /* who may pass on the next */
	uint64_t commands, refused_clients, refused_commands, dropped_clients, unanswered;
	struct client clients[TEL_CLIENTS_MAX];
	struct tel_json json;
	char answer[TEL_ANSWER_BYTES];
	char path[PATH_BYTES];
	pthread_t thread;
};
enum { NOBODY = -1, GONE = -2 };

/* ---- What may be asked ---- */
enum permit { PERMIT_NO, PERMIT_READ, PERMIT_WRITE };

static const struct {
	const char *name;
	unsigned int changes; /* with so many parameters or more the command changes something; 0: never */
} allowed[] = {
	{ "/uroce/config", 0 },  { "/uroce/port", 0 },	 { "/uroce/engine", 0 },	   { "/uroce/session", 0 },
	{ "/uroce/qp", 0 },	     { "/uroce/cq", 0 },	 { "/uroce/mr", 0 },	   { "/uroce/cm", 0 },
	{ "/uroce/handover", 0 }, { "/uroce/memory", 0 },  { "/uroce/capture", 1 }, { "/uroce/impair", 2 },	   { "/uroce/rows", 0 },
	{ "/uroce/move", 1 },
	{ "/uroce/telemetry", 0 }, { "/", 0 },		 { "/ethdev/list", 0 },	   { "/ethdev/stats", 0 },
	{ "/ethdev/xstats", 0 }, { "/ethdev/info", 0 },	 { "/ethdev/link_status", 0 },
};

static enum permit
permit_of(const char *command)
{
	size_t n = strcspn(command, ",");
	unsigned int params = 0;

	for (const char *at = command; (at = strchr(at, ',')) != NULL; at++)
		params++;
	for (unsigned int i = 0; i < RTE_DIM(allowed); i++)
		if (strlen(allowed[i].name) == n && strncmp(allowed[i].name, command, n) == 0)
			return allowed[i].changes != 0 && params >= allowed[i].changes ? PERMIT_WRITE : PERMIT_READ;
	return PERMIT_NO;
}

static bool
is_trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* ---- Clients ---- */
static void
drop(struct telemetry_socket *t, struct client *k)
{
	if (t->asking == (int)(k - t->clients))
		t->asking = GONE;
	close(k->fd);
	k->fd = -1;
	k->waiting = false;
}

/* Send the answer in t->json. One who doesn't read what it has asked for is dropped. */
static void
reply(struct telemetry_socket *t, struct client *k)
{
	if (send(k->fd, t->json.text, t->json.used, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)t->json.used)
		return;
	t->dropped_clients++;
	drop(t, k);
}

static void
begin(struct telemetry_socket *t, const char *command)
{
	char key[KEY_BYTES];

	strlcpy(key, command, RTE_MIN(sizeof(key), strcspn(command, ",") + 1));
	t->json.used = 0;
	t->json.full = false;
	tel_json_add(&t->json, "{");
	tel_json_string(&t->json, key);
	tel_json_add(&t->json, ":");
}

static void
reply_error(struct telemetry_socket *t, struct client *k, const char *text)
{
	begin(t, k->command);
	tel_json_add(&t->json, "{\"error\":[");
	tel_json_string(&t->json, text);
	tel_json_add(&t->json, "]}}");
	reply(t, k);
}

static void
greet(struct telemetry_socket *t, int fd, const char *error)
{
	char text[256];
	int n;

	if (error != NULL)
		n = snprintf(text, sizeof(text), "{\"error\":\"%s\"}", error);
	else
		n = snprintf(text, sizeof(text), "{\"version\":\"uroce " UROCE_VERSION "\",\"pid\":%d,\"max_output_len\":%d,\"abi\":%d}", (int)getpid(),
			     TEL_ANSWER_BYTES, UROCE_ABI_VERSION);
	/* To a socket that was just made; if that fails, its owner sees so soon enough. */
	if (send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		t->unanswered++;
}

/* @return NULL, or why @p uid can't have another connection. */
static const char *
refusal(const struct telemetry_socket *t, uid_t uid, int *free_one)
{
	unsigned int of_user = 0;

	*free_one = -1;
	for (int i = 0; i < TEL_CLIENTS_MAX; i++) {
		if (t->clients[i].fd < 0)
			*free_one = i;
		else if (t->clients[i].uid == uid)
			of_user++;
	}
	if (*free_one < 0)
		return "the telemetry socket has as many clients as it takes; try again later";
	if (of_user >= TEL_USER_CLIENTS_MAX && !is_trusted(uid))
		return "this user has as many connections to the telemetry socket as one may have";
	return NULL;
}

static void
welcome(struct telemetry_socket *t)
{
	int fd = accept4(t->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i;
	struct ucred who;
	socklen_t len = sizeof(who);
	const char *why;

	if (fd < 0) {
		/* Without a descriptor left the client stays in the queue, and poll() returns at once. */
		if (errno != EAGAIN && errno != ECONNABORTED)
			usleep(REST_MOST_US);
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0) {
		close(fd);
		return;
	}
	why = refusal(t, who.uid, &i);
	greet(t, fd, why);
	if (why != NULL) {
		t->refused_clients++;
		close(fd);
		return;
	}
	t->clients[i] = (struct client){ .fd = fd, .uid = who.uid, .asked_ns = control_now_ns() };
}

/* ---- Commands that are answered here ---- */
static void
list_commands(struct telemetry_socket *t, struct client *k)
{
	begin(t, k->command);
	for (unsigned int i = 0; i < RTE_DIM(allowed); i++)
		tel_json_add(&t->json, "%s\"%s\"", i > 0 ? "," : "[", allowed[i].name);
	tel_json_add(&t->json, "]}");
	reply(t, k);
}

static void
describe(struct telemetry_socket *t, struct client *k)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < TEL_CLIENTS_MAX; i++)
		n += t->clients[i].fd >= 0;
	begin(t, k->command);
	tel_json_add(&t->json, "{\"version\":\"" UROCE_VERSION "\",\"abi\":%d,\"pid\":%d,\"uid\":%u,\"socket\":", UROCE_ABI_VERSION, (int)getpid(),
		     (unsigned int)geteuid());
	tel_json_string(&t->json, t->control->s.conf->socket);
	tel_json_add(&t->json, ",\"ports\":%u,\"engines\":%u,\"clients\":%u,\"commands\":%lu,\"refused_clients\":%lu", t->control->s.nb_ports,
		     t->control->s.nb_engines, n, (unsigned long)t->commands, (unsigned long)t->refused_clients);
	tel_json_add(&t->json, ",\"refused_commands\":%lu,\"dropped_clients\":%lu,\"unanswered\":%lu}}", (unsigned long)t->refused_commands,
		     (unsigned long)t->dropped_clients, (unsigned long)t->unanswered);
	reply(t, k);
}

static void
answer_rows(struct telemetry_socket *t, struct client *k)
{
	const char *params = strchr(k->command, ',');

	begin(t, k->command);
	tel_rows(t->control, params != NULL ? params + 1 : "", &t->json);
	tel_json_add(&t->json, "}");
	reply(t, k);
}

/* ---- Commands that are passed on ---- */
/* Put into @p to what this stack's command is called in DPDK's telemetry. */
static void
translate(const struct telemetry_socket *t, const char *command, char *to, size_t bytes)
{
	if (t->number > 0 && strncmp(command, "/uroce/", strlen("/uroce/")) == 0)
		snprintf(to, bytes, "/uroce%u/%s", t->number + 1, command + strlen("/uroce/"));
	else
		strlcpy(to, command, bytes);
}

/* Pass on the next command that waits. */
static void
pass_on(struct telemetry_socket *t)
{
	char command[TEL_COMMAND_BYTES + 8];

	for (unsigned int n = 0; n < TEL_CLIENTS_MAX && t->asking == NOBODY; n++) {
		struct client *k = &t->clients[t->turn++ % TEL_CLIENTS_MAX];

		if (!k->waiting)
			continue;
		k->waiting = false;
		translate(t, k->command, command, sizeof(command));
		if (tel_upstream_ask(&t->upstream, command)) {
			t->asking = (int)(k - t->clients);
			t->asked_ns = control_now_ns();
		} else {
			t->unanswered++;
			reply_error(t, k, t->upstream.fd < 0 ? "this daemon runs without DPDK's telemetry (EAL's --no-telemetry), which has the answer"
							     : "DPDK's telemetry is busy; try again");
		}
	}
}

/* DPDK's telemetry has answered: replace its name of the command by ours. */
static void
pass_back(struct telemetry_socket *t)
{
	char *text = t->answer + KEY_BYTES; /* room for a longer key */
	ssize_t n = tel_upstream_take(&t->upstream, text, sizeof(t->answer) - KEY_BYTES);
	struct client *k = t->asking >= 0 ? &t->clients[t->asking] : NULL;
	char *value;

	if (n == 0)
		return;
	t->asking = NOBODY;
	value = n > 0 ? strchr(text, ':') : NULL;
	if (k == NULL)
		return;
	if (value == NULL) {
		t->unanswered++;
		reply_error(t, k, "DPDK's telemetry gave no answer");
		return;
	}
	begin(t, k->command);
	/* The key is at most as much longer as there is room for; begin() wrote it to the start of the same memory. */
	t->json.used--;
	memmove(t->json.text + t->json.used, value, strlen(value));
	t->json.used += (size_t)(text + n - value);
	reply(t, k);
}

/* ---- The thread ---- */
/* A client has sent something. */
static void
take_command(struct telemetry_socket *t, struct client *k)
{
	ssize_t n = recv(k->fd, k->command, sizeof(k->command), MSG_DONTWAIT | MSG_TRUNC);
	const char *wrong = NULL;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(t, k);
		return;
	}
	t->commands++;
	k->asked_ns = control_now_ns();
	if ((size_t)n >= sizeof(k->command))
		wrong = "the command is too long";
	k->command[RTE_MIN((size_t)n, sizeof(k->command) - 1)] = '\0';
	for (ssize_t i = 0; wrong == NULL && i < n; i++)
		if (k->command[i] < ' ' || k->command[i] > '~')
			wrong = "the command has bytes that are no text";
	if (wrong == NULL)
		switch (permit_of(k->command)) {
		case PERMIT_NO:
			wrong = "there is no such command here; / lists those that there are";
			break;
		case PERMIT_WRITE:
			if (!is_trusted(k->uid))
				wrong = "only root and the user as whom the daemon runs may start and stop captures and impair ports";
			break;
		case PERMIT_READ:
			break;
		}
	if (wrong != NULL) {
		t->refused_commands++;
		reply_error(t, k, wrong);
	} else if (strcmp(k->command, "/") == 0) {
		list_commands(t, k);
	} else if (strncmp(k->command, "/uroce/rows", strlen("/uroce/rows")) == 0) {
		answer_rows(t, k);
	} else if (strncmp(k->command, "/uroce/telemetry", strlen("/uroce/telemetry")) == 0) {
		describe(t, k);
	} else {
		k->waiting = true;
	}
}

/* Drop clients that ask nothing any more, and give up a command that isn't answered. */
static void
look_at_time(struct telemetry_socket *t)
{
	uint64_t now = control_now_ns();

	for (unsigned int i = 0; i < TEL_CLIENTS_MAX; i++) {
		struct client *k = &t->clients[i];

		if (k->fd >= 0 && !k->waiting && t->asking != (int)i && now - k->asked_ns > TEL_IDLE_SECONDS * UINT64_C(1000000000)) {
			t->dropped_clients++;
			drop(t, k);
		}
	}
	if (t->asking == NOBODY || now - t->asked_ns < TEL_UPSTREAM_SECONDS * UINT64_C(1000000000))
		return;
	t->unanswered++;
	t->upstream.stale++;
	if (t->asking >= 0)
		reply_error(t, &t->clients[t->asking], "DPDK's telemetry doesn't answer");
	t->asking = NOBODY;
}

/* Rest as long as the work since @p begun took: whoever asks all the time leaves the other half of it to the control thread. */
static void
rest(uint64_t begun)
{
	uint64_t us = RTE_MIN((control_now_ns() - begun) / 1000, (uint64_t)REST_MOST_US);

	if (us > 0)
		usleep((useconds_t)us);
}

static void
prepare(const struct telemetry_socket *t, struct pollfd *fds)
{
	for (unsigned int i = 0; i < TEL_CLIENTS_MAX; i++) {
		const struct client *k = &t->clients[i];

		/* One command at a time; what it sends meanwhile stays in its socket. */
		fds[i] = (struct pollfd){ k->waiting || t->asking == (int)i ? -1 : k->fd, POLLIN, 0 };
	}
	fds[FD_STOP] = (struct pollfd){ t->stop_fd, POLLIN, 0 };
	fds[FD_LISTEN] = (struct pollfd){ t->listen_fd, POLLIN, 0 };
	fds[FD_UPSTREAM] = (struct pollfd){ t->upstream.fd, POLLIN, 0 };
}

static void *
run(void *arg)
{
	struct telemetry_socket *t = arg;
	struct pollfd fds[FDS];
	uint64_t begun;

	control_thread_signals();
	for (;;) {
		prepare(t, fds);
		if (poll(fds, FDS, TICK_MS) < 0 && errno != EINTR)
			return NULL;
		if (fds[FD_STOP].revents != 0)
			return NULL;
		begun = control_now_ns();
		if (fds[FD_UPSTREAM].revents != 0)
			pass_back(t);
		for (unsigned int i = 0; i < TEL_CLIENTS_MAX; i++)
			if (fds[i].revents != 0 && t->clients[i].fd == fds[i].fd)
				take_command(t, &t->clients[i]);
		pass_on(t);
		if (fds[FD_LISTEN].revents != 0)
			welcome(t);
		look_at_time(t);
		rest(begun);
	}
}

static void
socket_free(struct telemetry_socket *t)
{
	if (t->listen_fd >= 0)
		control_socket_remove(t->path);
	for (unsigned int i = 0; i < TEL_CLIENTS_MAX; i++)
		if (t->clients[i].fd >= 0)
			close(t->clients[i].fd);
	if (t->listen_fd >= 0)
		close(t->listen_fd);
	if (t->stop_fd >= 0)
		close(t->stop_fd);
	tel_upstream_close(&t->upstream);
	free(t);
}

struct telemetry_socket *
telemetry_socket_start(struct control *c, unsigned int number, char *err)
{
	struct telemetry_socket *t = calloc(1, sizeof(*t));
	const struct uroced_config *conf = c->s.conf;
	int rc;

	if (t == NULL) {
		config_fail(err, ENOMEM, "no memory for the telemetry socket");
		return NULL;
	}
	t->control = c;
	t->number = number;
	t->asking = NOBODY;
	t->listen_fd = -1;
	t->json = (struct tel_json){ .text = t->answer, .room = sizeof(t->answer) };
	for (unsigned int i = 0; i < TEL_CLIENTS_MAX; i++)
		t->clients[i].fd = -1;
	tel_upstream_open(&t->upstream);
	snprintf(t->path, sizeof(t->path), "%s" TEL_SOCKET_SUFFIX, conf->socket);
	t->stop_fd = eventfd(0, EFD_CLOEXEC);
	rc = t->stop_fd < 0 ? config_fail(err, errno, "telemetry socket: %s", strerror(errno)) : 0;
	if (rc == 0)
		rc = control_socket_bind(t->path, conf->socket_mode, conf->socket_group, &t->listen_fd, err);
	if (rc == 0)
		rc = control_socket_publish(t->path, err);
	if (rc == 0 && (rc = pthread_create(&t->thread, NULL, run, t)) != 0)
		config_fail(err, rc, "telemetry socket: no thread: %s", strerror(rc));
	if (rc == 0)
		return t;
	socket_free(t);
	return NULL;
}

bool
telemetry_socket_is_there(const struct uroced_config *conf)
{
	char path[CONFIG_SOCKET_BYTES + sizeof(TEL_SOCKET_SUFFIX)];
	int err;

	snprintf(path, sizeof(path), "%s" TEL_SOCKET_SUFFIX, conf->socket);
	return socket_path_clear(path, SOCK_SEQPACKET, &err) == SOCKET_PATH_USED;
}

void
telemetry_socket_stop(struct telemetry_socket *t)
{
	const uint64_t one = 1;

	if (t == NULL)
		return;
	if (write(t->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(t->thread, NULL);
	socket_free(t);
}
