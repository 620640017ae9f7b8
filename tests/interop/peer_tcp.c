/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"

enum { CONNECT_TRIES = 600, CONNECT_PAUSE_US = 100000 };

static void
die(const char *what)
{
	fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int
no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int
tcp_listen_one(int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1, conn;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(s, 1) != 0)
		die("listen");
	conn = accept(s, NULL, NULL);
	if (conn < 0)
		die("accept");
	close(s);
	return no_delay(conn);
}

int
tcp_connect_to(const char *address, int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int s;

	if (inet_pton(AF_INET, address, &addr.sin_addr) != 1) {
		errno = EINVAL;
		die(address);
	}
	for (int i = 0; i < CONNECT_TRIES; i++) {
		s = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(s, (struct sockaddr *)&addr, sizeof(addr)) == 0)
			return no_delay(s);
		close(s);
		usleep(CONNECT_PAUSE_US);
	}
	die(address);
	return -1;
}

void
tcp_put(struct side *s, const void *data, size_t len)
{
	if (send(s->sock, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		die("the other side is gone");
}

void
tcp_get(struct side *s, void *data, size_t len)
{
	if (recv(s->sock, data, len, MSG_WAITALL) != (ssize_t)len) {
		fprintf(stderr, "peer: the other side is gone\n");
		exit(1);
	}
}

void
barrier(struct side *s)
{
	uint8_t byte = 0;

	tcp_put(s, &byte, 1);
	tcp_get(s, &byte, 1);
}
