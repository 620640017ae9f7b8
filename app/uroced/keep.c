/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/notify.h"
#include "keep.h"

/* Under which the service manager keeps the socket. */
static const char kept_name[] = "uroce-programs";

enum { QUEUE_BYTES = 16 << 20 };

/* ---- The daemon that goes ---- */
static uint32_t
count_sessions(const struct uroced *u)
{
	struct control_counts n;
	uint32_t all = 0;

	for (unsigned int i = 0; i < u->nb_stacks; i++) {
		control_counts(u->stacks[i]->control, &n);
		all += n.sessions;
	}
	return all;
}

/** @return 0; an errno value with what failed in *@p what. */
static int
store(const struct stream_out *o, const char **what)
{
	const int bytes = QUEUE_BYTES;
	int ends[2], rc;

	*what = "a pair of sockets";
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return errno;
	/* More than net.core.wmem_max only for root; what is granted is enough for ten thousand descriptors. */
	if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) != 0)
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	*what = "their records and descriptors don't fit into a socket (net.core.wmem_max)";
	rc = talk_store(ends[0], o);
	if (rc == 0) {
		*what = "the service manager doesn't take them";
		rc = notify_store(ends[1], kept_name);
	}
	close(ends[0]);
	close(ends[1]);
	return rc;
}

void
keep_programs(struct uroced *u)
{
	uint32_t sessions = count_sessions(u);
	struct stream_out o = { 0 };
	const char *what = "their state can't be written down";
	int rc;

	if (sessions == 0 || !notify_is_heard())
		return;
	printf("uroced: %u program%s of this daemon wait%s for the next one\n", sessions, sessions == 1 ? "" : "s", sessions == 1 ? "s" : "");
	fflush(stdout);
	rc = write_down(u, &o);
	if (rc == 0)
		rc = store(&o, &what);
	if (rc == 0)
		leave(u, 0);
	stream_free(&o);
	complain("the programs end with this daemon: %s: %s", what, suspend_why(rc));
	go_on(u);
}

/* ---- The daemon that comes ---- */
int
kept_socket(void)
{
	return notify_stored(kept_name);
}

int
kept_programs(struct uroced *u, const struct options *o, int fd, struct stream_in *in)
{
	char text[TALK_TEXT_BYTES];
	int rc = talk_fetch(fd, in);

	close(fd);
	notify_forget(kept_name);
	if (rc == 0 && check_programs(u, o, in, text) == 0)
		return 0;
	/* A daemon that ended while it made them anew has read them already. */
	if (rc != 0)
		snprintf(text, sizeof(text), "%s", rc == ENODATA ? "another daemon has read them" : strerror(rc));
	talk_free(in);
	return complain("the programs of the daemon before can't go on: %s", text);
}

void
kept_drop(int fd)
{
	if (fd < 0)
		return;
	close(fd);
	notify_forget(kept_name);
	complain("the programs of the daemon before can't go on: another daemon serves, and this one is its standby");
}
