/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection to a daemon's telemetry socket. */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon.h"

#define DEFAULT_SOCKET "/run/uroce/uroced.sock"
#define SUFFIX ".telemetry"

enum { GREETING_BYTES = 1024 };

static int sock = -1;
static char *buffer; /* for answers */
static size_t buffer_bytes;

/* ---- Where it is ---- */
/* The folder of the user's labs, as scripts/uroce_lab/state.py has it. */
static void
labs_folder(char *path, size_t bytes)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		snprintf(path, bytes, "/run/uroce-lab");
	else if (runtime != NULL && runtime[0] != '\0' && access(runtime, W_OK | X_OK) == 0)
		snprintf(path, bytes, "%s/uroce-lab", runtime);
	else
		snprintf(path, bytes, "/tmp/uroce-lab-%u", (unsigned int)geteuid());
}

static const char *
lab_socket(void)
{
	static char found[PATH_BYTES];
	char folder[PATH_BYTES / 2], path[PATH_BYTES], names[PATH_BYTES] = "";
	json_object *lab, *hosts = NULL;

	labs_folder(folder, sizeof(folder));
	if (strchr(target.lab, '/') != NULL || (size_t)snprintf(path, sizeof(path), "%s/%s/lab.json", folder, target.lab) >= sizeof(path)) {
		usage("--lab %s: no name of a lab", target.lab);
		return NULL;
	}
	lab = json_object_from_file(path);
	if (lab == NULL) {
		fail("lab '%s' is not up (there is no %s); `uroce-lab up --name %s` raises it", target.lab, path, target.lab);
		return NULL;
	}
	json_object_object_get_ex(lab, "hosts", &hosts);
	for (size_t i = 0; json_object_is_type(hosts, json_type_array) && i < json_object_array_length(hosts) && found[0] == '\0'; i++) {
		json_object *host = json_object_array_get_idx(hosts, i);

		if (strcmp(text_of(host, "name"), target.host) == 0)
			snprintf(found, sizeof(found), "%s", text_of(host, "socket"));
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? ", " : "", text_of(host, "name"));
	}
	json_object_put(lab);
	if (found[0] != '\0')
		return found;
	usage("--lab %s %s: no such host; the lab has: %s", target.lab, target.host, names);
	return NULL;
}

const char *
socket_path(void)
{
	const char *env = getenv("UROCE_SOCKET");

	if (target.lab != NULL)
		return lab_socket();
	if (target.socket != NULL)
		return target.socket;
	return env != NULL && env[0] != '\0' ? env : DEFAULT_SOCKET;
}

/* ---- Connection ---- */
/* Say why @p path can't be opened. */
static void
explain(const char *path, const char *programs, int rc, char *err, size_t bytes)
{
	const struct group *g;
	struct stat st;

	switch (rc) {
	case ENOENT:
		if (stat(programs, &st) == 0)
			snprintf(err, bytes, "%s: the daemon there serves no telemetry (daemon.telemetry = off?)", programs);
		else
			snprintf(err, bytes, "no daemon at %s: start it (systemctl start uroced), or give %s", programs, target.where);
		break;
	case ECONNREFUSED:
		snprintf(err, bytes, "%s: the daemon that made it has ended; start it again (systemctl restart uroced)", path);
		break;
	case EACCES:
	case EPERM:
		if (stat(path, &st) != 0) {
			snprintf(err, bytes, "%s: permission denied: its folder is not for this user", path);
			break;
		}
		g = getgrgid(st.st_gid);
		snprintf(err, bytes, "%s: permission denied: it is for group %s (usermod -aG %s USER, and log in anew), or see "
				     "daemon.socket_mode and daemon.socket_group", path, g != NULL ? g->gr_name : "?", g != NULL ? g->gr_name : "GROUP");
		break;
	default:
		snprintf(err, bytes, "%s: %s", path, strerror(rc));
	}
}

/* @return the bytes received, or -1 with @p err filled. */
static ssize_t
receive(char *to, size_t room, char *err, size_t bytes)
{
	struct pollfd p = { sock, POLLIN, 0 };
	ssize_t n;

	if (poll(&p, 1, ANSWER_SECONDS * 1000) != 1) {
		snprintf(err, bytes, "the daemon doesn't answer within %d s", ANSWER_SECONDS);
		return -1;
	}
	n = recv(sock, to, room - 1, 0);
	if (n <= 0) {
		snprintf(err, bytes, "the daemon has closed the connection%s%s", n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
		return -1;
	}
	to[n] = '\0';
	return n;
}

static void
disconnect(void)
{
	if (sock >= 0)
		close(sock);
	sock = -1;
}

static bool
take_greeting(char *err, size_t bytes)
{
	char text[GREETING_BYTES];
	json_object *o;
	bool good;

	if (receive(text, sizeof(text), err, bytes) < 0)
		return false;
	o = json_tokener_parse(text);
	good = o != NULL && !json_object_object_get_ex(o, "error", NULL);
	buffer_bytes = (size_t)value_of(o, "max_output_len") + 1;
	if (!good)
		snprintf(err, bytes, "the daemon refuses: %s", text_of(o, "error"));
	else if (buffer_bytes < GREETING_BYTES || buffer_bytes > ANSWER_BYTES_MAX) {
		snprintf(err, bytes, "what listens there is no telemetry");
		good = false;
	}
	json_object_put(o);
	free(buffer);
	buffer = good ? malloc(buffer_bytes) : NULL;
	return buffer != NULL;
}

static bool
connect_to_daemon(char *err, size_t bytes)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path;

	if (sock >= 0)
		return true;
	path = socket_path();
	if (path == NULL) {
		err[0] = '\0'; /* was said */
		return false;
	}
	if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s" SUFFIX, path) >= sizeof(sa.sun_path)) {
		snprintf(err, bytes, "%s: too long for the path of a socket", path);
		return false;
	}
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
		explain(sa.sun_path, path, errno, err, bytes);
		disconnect();
		return false;
	}
	if (take_greeting(err, bytes))
		return true;
	disconnect();
	return false;
}

/* @return the value of the only member of the answer in the buffer, or NULL. */
static json_object *
parse_answer(char *err, size_t bytes)
{
	json_object *o = json_tokener_parse(buffer), *value = NULL, *wrong;
	struct json_object_iterator it;
	char *said;

	if (json_object_is_type(o, json_type_object) && json_object_object_length(o) > 0) {
		it = json_object_iter_begin(o);
		value = json_object_get(json_object_iter_peek_value(&it));
	}
	json_object_put(o);
	if (value == NULL) {
		snprintf(err, bytes, "the daemon's answer can't be understood");
		return NULL;
	}
	/* /uroce/config has the last error of a reload beside other members. */
	if (!json_object_is_type(value, json_type_object) || !json_object_object_get_ex(value, "error", &wrong) ||
	    json_object_object_get_ex(value, "reloads", NULL))
		return value;
	said = joined(value, "error", "");
	snprintf(err, bytes, "%s", said != NULL ? said : "?");
	free(said);
	json_object_put(value);
	return NULL;
}

/* Send a command and have the answer in the buffer. @return false: @p err says why not. */
static bool
exchange(char *err, size_t bytes, const char *command)
{
	bool kept = sock >= 0;

	for (;;) {
		err[0] = '\0';
		if (!connect_to_daemon(err, bytes))
			return false;
		if (send(sock, command, strlen(command), MSG_NOSIGNAL) == (ssize_t)strlen(command) && receive(buffer, buffer_bytes, err, bytes) > 0)
			return true;
		if (err[0] == '\0')
			snprintf(err, bytes, "the daemon has closed the connection");
		disconnect();
		/* It drops those that were silent for long. */
		if (!kept)
			return false;
		kept = false;
	}
}

json_object *
ask_quietly(char *err, size_t bytes, const char *command)
{
	return exchange(err, bytes, command) ? parse_answer(err, bytes) : NULL;
}

const char *
ask_page(char *err, size_t bytes, const char *command)
{
	const char *columns;

	if (!exchange(err, bytes, command))
		return NULL;
	columns = strstr(buffer, "{\"columns\":[");
	if (columns != NULL)
		return columns + 1;
	json_object_put(parse_answer(err, bytes));
	if (err[0] == '\0')
		snprintf(err, bytes, "the daemon's answer can't be understood");
	return NULL;
}

json_object *
ask(const char *fmt, ...)
{
	char command[COMMAND_BYTES], err[1024];
	json_object *value;
	va_list ap;

	va_start(ap, fmt);
	if ((size_t)vsnprintf(command, sizeof(command), fmt, ap) >= sizeof(command)) {
		va_end(ap);
		fail("too long for a command: %s", command);
		return NULL;
	}
	va_end(ap);
	value = ask_quietly(err, sizeof(err), command);
	if (value == NULL && err[0] != '\0')
		fail("%s", err);
	return value;
}
