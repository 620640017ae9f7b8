/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uroce_verbs.h"

#include "args.h"

enum { ACCESS_TEXT_BYTES = 128 };

const char *const state_words[] = { "reset", "init", "rtr", "rts", "sqd", "sqe", "err", NULL };
const char *const mtu_words[] = { "256", "512", "1024", "2048", "4096", NULL };

const char *const access_words[] = { "local", "write", "read", "atomic", "bind", "none", NULL };
static const int access_values[] = { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
				     IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND, 0 };

int
access_bits(const char *list)
{
	int bits = 0;

	while (true) {
		size_t n = strcspn(list, ",");

		for (unsigned int i = 0; access_words[i] != NULL; i++)
			if (strlen(access_words[i]) == n && strncmp(access_words[i], list, n) == 0)
				bits |= access_values[i];
		if (list[n] == '\0')
			return bits;
		list += n + 1;
	}
}

char *
access_text(unsigned int bits, char *text)
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned int i = 0; access_words[i] != NULL; i++)
		if ((bits & (unsigned int)access_values[i]) != 0)
			n += (size_t)snprintf(text + n, ACCESS_TEXT_BYTES - n, "%s%s", n > 0 ? "," : "", access_words[i]);
	if (n == 0)
		snprintf(text, ACCESS_TEXT_BYTES, "none");
	return text;
}

int
gid_parse(const char *text, struct gid *gid)
{
	uint8_t v4[4];

	if (inet_pton(AF_INET6, text, gid) == 1)
		return 0;
	if (inet_pton(AF_INET, text, v4) != 1)
		return -1;
	*gid = gid_from_v4(v4);
	return 0;
}

bool
call_means_host(const struct call *c, const struct host *h)
{
	return !call_has(c, "host") || strcmp(call_text(c, "host"), "all") == 0 || host_find(call_text(c, "host")) == h;
}

static FILE *json_stream;

void
answers_in_json(void)
{
	int fd = dup(STDOUT_FILENO);

	json_stream = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (json_stream == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		perror("uroce-test: --json");
		exit(EXIT_FAILURE);
	}
}

FILE *
answer_stream(void)
{
	return json_stream != NULL ? json_stream : stdout;
}

bool
call_json(const struct call *c)
{
	return json_stream != NULL || call_has(c, "json");
}

int
call_answer(const struct call *c, struct format *f, enum format_style style, const char *empty)
{
	format_end(f, call_json(c) ? FORMAT_JSON : style, empty, answer_stream());
	return 0;
}

void
format_host_row(struct format *f, const struct host *h)
{
	format_row(f);
	format_text(f, "host", "%s", h->name);
}

int
call_show_hosts(const struct call *c, void (*add)(const struct call *c, struct format *f, const struct host *h),
		enum format_style style, const char *empty)
{
	struct format *f = format_new();

	for (unsigned int i = 0; i < hosts_count(); i++)
		if (call_means_host(c, host_at(i)))
			add(c, f, host_at(i));
	return call_answer(c, f, style, empty);
}
