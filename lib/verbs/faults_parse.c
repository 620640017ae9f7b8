/* SPDX-License-Identifier: BSD-3-Clause */
/* The syntax of UROCE_FAULTS. */
#include "verbs/faults.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN "reg-fail=N, send-error=N, recv-error=N, qp-error=N, device-fatal=N, late-completion=N, log=PATH"

enum { TEXT_BYTES = PATH_MAX + 256, SHOWN_BYTES = 80, NUMBER_DIGITS = 10 };

static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
	{ "reg-fail", offsetof(struct client_fault_plan, reg_fail) },
	{ "send-error", offsetof(struct client_fault_plan, send_error) },
	{ "recv-error", offsetof(struct client_fault_plan, recv_error) },
	{ "qp-error", offsetof(struct client_fault_plan, qp_error) },
	{ "device-fatal", offsetof(struct client_fault_plan, device_fatal) },
	{ "late-completion", offsetof(struct client_fault_plan, late_completion) },
};

__attribute__((format(printf, 3, 4))) static int
fail(char *err, size_t n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, n, fmt, ap);
	va_end(ap);
	return EINVAL;
}

static int
set_number(uint64_t *to, const char *name, const char *value, char *err, size_t n)
{
	size_t digits = strspn(value, "0123456789");
	uint64_t v = 0;

	if (*to)
		return fail(err, n, "%s is given twice: once is enough", name);
	if (digits <= NUMBER_DIGITS)
		v = strtoull(value, NULL, 10);
	if (value[digits] || !v || v > CLIENT_FAULTS_MAX)
		return fail(err, n, "%s=%.*s: must be a whole number from 1 to %" PRIu64, name, SHOWN_BYTES, value, CLIENT_FAULTS_MAX);
	*to = v;
	return 0;
}

static int
set_log(char *to, const char *value, char *err, size_t n)
{
	if (*to)
		return fail(err, n, "log is given twice: once is enough");
	/* The program may change its folder. */
	if (*value != '/' || strlen(value) >= PATH_MAX)
		return fail(err, n, "log=%.*s: must be the path of a file that begins with /", SHOWN_BYTES, value);
	strcpy(to, value);
	return 0;
}

static int
set_item(struct client_fault_plan *plan, char *item, char *err, size_t n)
{
	char *value = strchr(item, '=');

	if (!*item)
		return fail(err, n, "there is nothing between two commas or at an end: give NAME=N,NAME=N; there are " KNOWN);
	if (value)
		*value++ = 0;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(item, numbers[i].name) != 0)
			continue;
		if (!value || !*value)
			return fail(err, n, "%s has no number: give %s=N, with N from 1 to %" PRIu64, item, item, CLIENT_FAULTS_MAX);
		return set_number((uint64_t *)((char *)plan + numbers[i].offset), item, value, err, n);
	}
	if (strcmp(item, "log") == 0)
		return set_log(plan->log, value ? value : "", err, n);
	return fail(err, n, "\"%.*s\": there is no such fault; there are " KNOWN, SHOWN_BYTES, item);
}

int
client_faults_parse(const char *text, struct client_fault_plan *plan, char *err, size_t err_bytes)
{
	char copy[TEXT_BYTES], *rest = copy;
	size_t length = strlen(text);
	int rc = 0;

	*plan = (struct client_fault_plan){ 0 };
	if (!length)
		return fail(err, err_bytes, "it is empty: give faults like send-error=100, or unset it; there are " KNOWN);
	if (length >= sizeof(copy))
		return fail(err, err_bytes, "it is longer than the %zu bytes that it may have", sizeof(copy) - 1);
	memcpy(copy, text, length + 1);
	while (!rc && rest)
		rc = set_item(plan, strsep(&rest, ","), err, err_bytes);
	if (!rc && !plan->reg_fail && !plan->send_error && !plan->recv_error && !plan->qp_error && !plan->device_fatal && !plan->late_completion)
		rc = fail(err, err_bytes, "it names no fault: there are " KNOWN);
	return rc;
}
