/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands in a guest: `agent serve PORT` runs there, `agent run ADDRESS PORT COMMAND` on the host.
 *
 * The shell command goes over TCP, ended by a newline; its output comes back as it is, then a zero byte and the exit
 * status in decimal. The command doesn't outlive the connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	COMMAND_BYTES = 4096,
	STATUS_BYTES = 16,
	BACKLOG = 16,
	CONNECT_TRIES = 50,
	CONNECT_PAUSE_US = 100000,
	EXIT_BROKEN = 125, /* the connection, not the command, failed */
};

static void
die(const char *what)
{
	fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
	exit(EXIT_BROKEN);
}

/* @return whether a whole line came */
static int
read_line(int fd, char *line, size_t size)
{
	size_t n = 0;

	while (n < size - 1 && read(fd, line + n, 1) == 1) {
		if (line[n] == '\n') {
			line[n] = '\0';
			return 1;
		}
		n++;
	}
	return 0;
}

/* Wait for the command's end, or end it when nobody listens any more. @return the status a shell would give */
static int
attend(pid_t pid, int conn)
{
	struct pollfd fds[] = {
		{ .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN },
		{ .fd = conn, .events = POLLRDHUP },
	};
	int status;

	if (fds[0].fd < 0)
		die("pidfd_open");
	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (fds[0].revents == 0)
		kill(-pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void
serve_one(int conn)
{
	char command[COMMAND_BYTES], status[STATUS_BYTES];
	pid_t pid;

	signal(SIGCHLD, SIG_DFL);
	if (!read_line(conn, command, sizeof(command)))
		exit(EXIT_BROKEN);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		setpgid(0, 0);
		dup2(conn, STDOUT_FILENO);
		dup2(conn, STDERR_FILENO);
		close(conn);
		execl("/bin/sh", "sh", "-c", command, NULL);
		die("/bin/sh");
	}
	setpgid(pid, pid);
	status[0] = '\0';
	snprintf(status + 1, sizeof(status) - 1, "%d", attend(pid, conn));
	if (write(conn, status, 1 + strlen(status + 1)) < 0)
		exit(EXIT_BROKEN);
	exit(0);
}

static void
serve(int port)
{
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	int s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, conn;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(s, BACKLOG) != 0)
		die("listen");
	/* As the guest's first process it inherits all orphans; the kernel buries them. */
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		conn = accept4(s, NULL, NULL, SOCK_CLOEXEC);
		if (conn < 0)
			continue;
		if (fork() == 0)
			serve_one(conn);
		close(conn);
	}
}

static int
connect_to(const char *address, int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int s;

	if (inet_pton(AF_INET, address, &addr.sin_addr) != 1) {
		fprintf(stderr, "agent: %s: not an IPv4 address\n", address);
		exit(EXIT_BROKEN);
	}
	for (int i = 0; i < CONNECT_TRIES; i++) {
		s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(s, (struct sockaddr *)&addr, sizeof(addr)) == 0)
			return s;
		close(s);
		usleep(CONNECT_PAUSE_US);
	}
	die(address);
	return -1;
}

static int
run(const char *address, int port, const char *command)
{
	int s = connect_to(address, port);
	char buf[COMMAND_BYTES], status[STATUS_BYTES] = "";
	size_t status_len = 0;
	int ended = 0;
	ssize_t n;

	if (dprintf(s, "%s\n", command) < 0)
		die("send");
	while ((n = read(s, buf, sizeof(buf))) > 0) {
		char *zero = ended ? buf - 1 : memchr(buf, '\0', (size_t)n);
		size_t text = ended ? 0 : zero != NULL ? (size_t)(zero - buf) : (size_t)n;
		size_t rest;

		if (text > 0 && fwrite(buf, 1, text, stdout) != text)
			die("write");
		fflush(stdout);
		if (!ended && zero == NULL)
			continue;
		rest = (size_t)n - text - !ended;
		if (rest > sizeof(status) - 1 - status_len)
			rest = sizeof(status) - 1 - status_len;
		memcpy(status + status_len, buf + text + !ended, rest);
		status_len += rest;
		ended = 1;
	}
	if (status_len == 0) {
		fprintf(stderr, "agent: the connection broke\n");
		return EXIT_BROKEN;
	}
	return atoi(status);
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		serve(atoi(argv[2]));
	if (argc == 5 && strcmp(argv[1], "run") == 0)
		return run(argv[2], atoi(argv[3]), argv[4]);
	fprintf(stderr, "usage: agent serve PORT | agent run ADDRESS PORT COMMAND\n");
	return EXIT_BROKEN;
}
