/* SPDX-License-Identifier: BSD-3-Clause */
/* The exporter's socket and thread. */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bsd/string.h>

#include "base/socket_path.h"
#include "control/config/metrics_priv.h"
#include "control/core/control_priv.h"
#include "control/observe/exporter_priv.h"

enum {
	BACKLOG = 8,
	CLIENT_SECONDS = 2,      /**< time for a client to send its request, and again to receive the answer */
	REQUEST_BYTES = 4096,    /**< longest request that is read */
};

struct exporter {
	struct control *control;
	int listen_fd, stop_fd;
	pthread_t thread;
	char unlink[CONFIG_METRICS_BYTES]; /**< of a unix socket, else "" */
};

/** A client and its deadline: one thread serves all clients, and must be able to end. */
struct client {
	int fd, stop_fd;
	uint64_t deadline_ns;
};

static uint64_t
deadline(void)
{
	return control_now_ns() + CLIENT_SECONDS * UINT64_C(1000000000);
}

/** Wait for @p events. @return false: the deadline has passed, or the daemon stops. */
static bool
wait_for(const struct client *c, short events)
{
	struct pollfd fds[2] = { { c->fd, events, 0 }, { c->stop_fd, POLLIN, 0 } };
	uint64_t now = control_now_ns();

	if (now >= c->deadline_ns)
		return false;
	return poll(fds, 2, (int)((c->deadline_ns - now) / 1000000) + 1) > 0 && fds[1].revents == 0;
}

static void
send_all(const struct client *c, const char *p, size_t n)
{
	while (n > 0 && wait_for(c, POLLOUT)) {
		ssize_t sent = send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent <= 0)
			return;
		p += sent;
		n -= (size_t)sent;
	}
}

/** @return true if a complete request for the metrics has been received. */
static bool
take_request(const struct client *c)
{
	char buf[REQUEST_BYTES];
	size_t used = 0;
	ssize_t n;

	while (used < sizeof(buf) - 1) {
		if (!wait_for(c, POLLIN))
			return false;
		n = recv(c->fd, buf + used, sizeof(buf) - 1 - used, MSG_DONTWAIT);
		if (n <= 0)
			return false;
		used += (size_t)n;
		buf[used] = '\0';
		if (strstr(buf, "\r\n\r\n") != NULL || strstr(buf, "\n\n") != NULL)
			break;
	}
	return strncmp(buf, "GET / ", 6) == 0 || strncmp(buf, "GET /metrics ", 13) == 0;
}

static void
serve(struct exporter *x, int fd)
{
	struct client c = { fd, x->stop_fd, deadline() };
	static const char not_found[] = "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\n\r\nask for /metrics\n";
	char *text = NULL, header[128];
	size_t bytes = 0;
	FILE *f;

	if (!take_request(&c)) {
		send_all(&c, not_found, sizeof(not_found) - 1);
		return;
	}
	f = open_memstream(&text, &bytes);
	if (f == NULL)
		return;
	exporter_write(x->control, f);
	c.deadline_ns = deadline();
	if (fclose(f) == 0) {
		snprintf(header, sizeof(header),
			 "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n\r\n", bytes);
		send_all(&c, header, strlen(header));
		send_all(&c, text, bytes);
	}
	free(text);
}

static void *
run(void *arg)
{
	struct exporter *x = arg;
	struct pollfd fds[2] = { { x->listen_fd, POLLIN, 0 }, { x->stop_fd, POLLIN, 0 } };
	int fd;

	control_thread_signals();
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (fds[1].revents != 0)
			return NULL;
		fd = fds[0].revents != 0 ? accept4(x->listen_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		serve(x, fd);
		close(fd);
	}
}

/** @return a listening socket, or -1 with errno set. */
static int
listen_on(const union metrics_address *a, socklen_t len)
{
	int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, err;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &a->sa, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

static void
exporter_free(struct exporter *x)
{
	if (x->unlink[0] != '\0')
		unlink(x->unlink);
	if (x->listen_fd >= 0)
		close(x->listen_fd);
	if (x->stop_fd >= 0)
		close(x->stop_fd);
	free(x);
}

struct exporter *
exporter_start(struct control *c, const char *where, char *err)
{
	struct exporter *x = calloc(1, sizeof(*x));
	union metrics_address a;
	socklen_t len = config_metrics_parse(where, &a);
	int rc = ENOMEM;

	if (x == NULL)
		goto fail;
	x->control = c;
	x->listen_fd = x->stop_fd = -1;
	if (len == 0)
		goto fail;
	x->stop_fd = eventfd(0, EFD_CLOEXEC);
	/* Whoever listens there keeps it, and listen_on() fails. */
	if (a.sa.sa_family == AF_UNIX)
		(void)socket_path_clear(a.un.sun_path, SOCK_STREAM, &rc);
	x->listen_fd = listen_on(&a, len);
	rc = errno;
	if (x->stop_fd < 0 || x->listen_fd < 0)
		goto fail;
	if (a.sa.sa_family == AF_UNIX)
		strlcpy(x->unlink, a.un.sun_path, sizeof(x->unlink));
	rc = pthread_create(&x->thread, NULL, run, x);
	if (rc == 0)
		return x;
fail:
	snprintf(err, CONFIG_ERR_BYTES, "daemon.metrics = %s: %s", where, strerror(rc));
	if (x != NULL)
		exporter_free(x);
	return NULL;
}

bool
exporter_is_there(const char *where)
{
	union metrics_address a;
	socklen_t len = config_metrics_parse(where, &a);
	int fd, err;

	if (len == 0)
		return false;
	if (a.sa.sa_family == AF_UNIX)
		return socket_path_clear(a.un.sun_path, SOCK_STREAM, &err) == SOCKET_PATH_USED;
	fd = listen_on(&a, len);
	err = errno;
	if (fd >= 0)
		close(fd);
	return fd < 0 && err == EADDRINUSE;
}

void
exporter_stop(struct exporter *x)
{
	const uint64_t one = 1;

	if (x == NULL)
		return;
	if (write(x->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(x->thread, NULL);
	exporter_free(x);
}
