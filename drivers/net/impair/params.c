/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impair.h"

/** A key with a number: where it goes, and the range it must lie in. */
struct key {
	const char *name;
	enum { KEY_DOUBLE, KEY_U64 } type;
	size_t offset;
	double min, max;
	const char *unit;
};

#define AT(field) offsetof(struct impair_params, field)
static const struct key keys[] = {
	{ "loss", KEY_DOUBLE, AT(loss), 0, 1, "" },
	{ "burst", KEY_DOUBLE, AT(burst), 1, 1000, " packets" },
	{ "dup", KEY_DOUBLE, AT(dup), 0, 1, "" },
	{ "reorder", KEY_DOUBLE, AT(reorder), 0, 1, "" },
	{ "corrupt", KEY_DOUBLE, AT(corrupt), 0, 1, "" },
	{ "ecn", KEY_DOUBLE, AT(ecn), 0, 1, "" },
	{ "delay", KEY_DOUBLE, AT(delay_us), 0, 1e7, " us" },
	{ "jitter", KEY_DOUBLE, AT(jitter_us), 0, 1e7, " us" },
	{ "gap", KEY_DOUBLE, AT(gap_us), 0, 1e7, " us" },
	{ "rate", KEY_DOUBLE, AT(rate_mbps), 0, 1e6, " Mbit/s (0: no limit)" },
	{ "queue", KEY_U64, AT(queue), 1, IMPAIR_HELD_MAX, " packets" },
	{ "ecn_queue", KEY_U64, AT(ecn_queue), 0, IMPAIR_HELD_MAX, " packets (0: never)" },
	{ "seed", KEY_U64, AT(seed), 0, 1.8e19, "" },
};

static const char *const actions[IMPAIR_ACTIONS] = {
	[IMPAIR_DROP] = "drop", [IMPAIR_DUP] = "dup", [IMPAIR_CORRUPT] = "corrupt", [IMPAIR_MARK] = "mark", [IMPAIR_DELAY] = "delay",
};

static int
fail(char *err, size_t n, const char *fmt, const char *a, const char *b)
{
	snprintf(err, n, fmt, a, b);
	return EINVAL;
}

static int
set_key(struct impair_params *p, const char *name, const char *value, char *err, size_t n)
{
	for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct key *k = &keys[i];
		bool whole = k->type == KEY_U64;
		char *end;
		double v;

		if (strcmp(k->name, name) != 0)
			continue;
		v = strtod(value, &end);
		if (*value == '\0' || *end != '\0' || !(v >= k->min && v <= k->max) ||
		    (whole && value[strspn(value, "0123456789")] != '\0')) {
			snprintf(err, n, "impair: %s=%s: must be a %snumber from %.0f to %.0f%s", name, value,
				 whole ? "whole " : "", k->min, k->max, k->unit);
			return EINVAL;
		}
		if (k->type == KEY_DOUBLE)
			*(double *)((char *)p + k->offset) = v;
		else
			*(uint64_t *)((char *)p + k->offset) = strtoull(value, NULL, 10);
		return 0;
	}
	return fail(err, n,
		    "impair: unknown key \"%s\": known are loss, burst, dup, reorder, gap, delay, jitter, corrupt, ecn, rate, queue, "
		    "ecn_queue, seed, rule%s",
		    name, "");
}

/** A number or a range "A-B" within 0 to @p max. */
static bool
parse_range(const char *text, int64_t max, int64_t *lo, int64_t *hi)
{
	char *end;

	if (*text == '\0' || *text == '-')
		return false;
	*lo = *hi = strtoll(text, &end, 0);
	if (*end == '-' && hi != lo)
		*hi = strtoll(end + 1, &end, 0);
	return *end == '\0' && *lo >= 0 && *lo <= *hi && *hi <= max;
}

static int
set_rule(struct impair_params *p, char *text, char *err, size_t n)
{
	struct impair_rule *r = &p->rules[p->nb_rules];
	char *save, *part = strtok_r(text, "/", &save);
	int64_t lo, hi;

	if (p->nb_rules == IMPAIR_RULES_MAX)
		return fail(err, n, "impair: too many rules: at most 16%s%s", "", "");
	*r = (struct impair_rule){ .action = IMPAIR_ACTIONS, .opcode = -1, .qpn = -1, .psn_min = -1, .psn_max = -1 };
	for (int i = 0; part != NULL && i < IMPAIR_ACTIONS; i++)
		if (strcmp(part, actions[i]) == 0)
			r->action = i;
	if (r->action == IMPAIR_ACTIONS)
		return fail(err, n, "impair: rule \"%s\": must begin with drop, dup, corrupt, mark or delay%s", part ? part : "", "");
	while ((part = strtok_r(NULL, "/", &save)) != NULL) {
		char *value = strchr(part, '=');

		if (value == NULL)
			return fail(err, n, "impair: rule: \"%s\" has no value: expected KEY=VALUE%s", part, "");
		*value++ = '\0';
		if (strcmp(part, "opcode") == 0 && parse_range(value, 255, &lo, &lo))
			r->opcode = (int)lo;
		else if (strcmp(part, "qpn") == 0 && parse_range(value, 0xffffff, &lo, &lo))
			r->qpn = lo;
		else if (strcmp(part, "psn") == 0 && parse_range(value, 0xffffff, &lo, &hi))
			r->psn_min = lo, r->psn_max = hi;
		else if (strcmp(part, "skip") == 0 && parse_range(value, INT64_MAX, &lo, &lo))
			r->skip = lo;
		else if (strcmp(part, "count") == 0 && parse_range(value, INT64_MAX, &lo, &lo))
			r->count = lo;
		else
			return fail(err, n,
				    "impair: rule: %s=%s: known are opcode (0 to 255), qpn and psn (0 to 16777215, psn also as A-B), skip, count",
				    part, value);
	}
	p->nb_rules++;
	return 0;
}

static const struct impair_params defaults = { .burst = 1, .gap_us = 50, .queue = 1000, .seed = 1 };

int
impair_parse(const char *text, struct impair_params *p, char *err, size_t err_bytes)
{
	char *copy = strdup(text), *save, *item;
	int rc = 0;

	*p = defaults;
	if (copy == NULL)
		return fail(err, err_bytes, "impair: no memory%s%s", "", "");
	for (item = strtok_r(copy, ",", &save); item != NULL && rc == 0; item = strtok_r(NULL, ",", &save)) {
		char *value = strchr(item, '=');

		if (value == NULL) {
			rc = fail(err, err_bytes, "impair: \"%s\" has no value: expected KEY=VALUE%s", item, "");
			break;
		}
		*value++ = '\0';
		rc = strcmp(item, "rule") == 0 ? set_rule(p, value, err, err_bytes) : set_key(p, item, value, err, err_bytes);
	}
	free(copy);
	return rc;
}

/** A piece of text behind what is there; what doesn't fit is left out. */
struct writer {
	char *text;
	size_t n, room;
};

__attribute__((format(printf, 2, 3))) static void
add(struct writer *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(w->text + w->n, w->room - w->n, fmt, ap);
	va_end(ap);
	if (n > 0)
		w->n = w->n + (size_t)n < w->room ? w->n + (size_t)n : w->room - 1;
}

static void
add_rule(struct writer *w, const struct impair_rule *r)
{
	add(w, "%srule=%s", w->n > 0 ? "," : "", actions[r->action]);
	if (r->opcode >= 0)
		add(w, "/opcode=%#04x", r->opcode);
	if (r->qpn >= 0)
		add(w, "/qpn=%#" PRIx64, r->qpn);
	if (r->psn_min >= 0)
		add(w, "/psn=%" PRId64 "-%" PRId64, r->psn_min, r->psn_max);
	if (r->skip > 0)
		add(w, "/skip=%" PRIu64, r->skip);
	if (r->count > 0)
		add(w, "/count=%" PRIu64, r->count);
}

char *
impair_format(const struct impair_params *p, char *text, size_t text_bytes)
{
	struct writer w = { .text = text, .room = text_bytes };

	text[0] = '\0';
	for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *at = (const char *)p + keys[i].offset, *std = (const char *)&defaults + keys[i].offset;

		if (memcmp(at, std, sizeof(uint64_t)) == 0)
			continue;
		add(&w, "%s%s=", w.n > 0 ? "," : "", keys[i].name);
		if (keys[i].type == KEY_DOUBLE)
			add(&w, "%.15g", *(const double *)at);
		else
			add(&w, "%" PRIu64, *(const uint64_t *)at);
	}
	for (unsigned int i = 0; i < p->nb_rules; i++)
		add_rule(&w, &p->rules[i]);
	return text;
}
