/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An INI file, read by our own code: rte_cfgfile has no line numbers, accepts duplicates and truncates long values.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "control/config/config_source_priv.h"

#define COMMENT '#'

enum { LINE_CHARS = 1024 /* comments included; a longer line is hardly a configuration's */ };

bool
config_problem(struct config_problems *p, const char *text)
{
	if (p->nb++ == 0)
		strlcpy(p->first, text, sizeof(p->first));
	if (p->tell != NULL)
		p->tell(p->arg, text);
	return p->nb < CONFIG_MAX_PROBLEMS;
}

int
config_fail(char *err, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, CONFIG_ERR_BYTES, fmt, ap);
	va_end(ap);
	return rc;
}

int
config_error(char *err, const struct config_setting *s, const char *fmt, ...)
{
	size_t n, room = CONFIG_ERR_BYTES;
	va_list ap;

	if (s->file != NULL)
		n = snprintf(err, room, "%s:%u: [%s]", s->file, s->line, s->section);
	else
		n = snprintf(err, room, "--set: [%s]", s->section);
	if (s->key[0] != '\0' && n < room)
		n += snprintf(err + n, room - n, " %s", s->key);
	if (s->value[0] != '\0' && n < room)
		n += snprintf(err + n, room - n, " = %.80s", s->value);
	if (n < room)
		n += snprintf(err + n, room - n, ": ");
	if (n < room) {
		va_start(ap, fmt);
		vsnprintf(err + n, room - n, fmt, ap);
		va_end(ap);
	}
	return EINVAL;
}

/** Trim blanks at both ends, in place. @return the first remaining character. */
static char *
trim(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	n = strlen(s);
	while (n > 0 && isspace((unsigned char)s[n - 1]))
		n--;
	s[n] = '\0';
	return s;
}

static const struct config_setting *
find(const struct config_source *src, const char *section, const char *key)
{
	for (unsigned int i = 0; i < src->nb; i++) {
		if (strcmp(src->settings[i].section, section) == 0 && strcmp(src->settings[i].key, key) == 0)
			return &src->settings[i];
	}
	return NULL;
}

/** Add @p s unless it is a duplicate or there are too many settings. */
static int
add(struct config_source *src, const struct config_setting *s, char *err)
{
	const struct config_setting *other = find(src, s->section, s->key);

	if (other != NULL && other->file != NULL && s->file != NULL)
		return config_error(err, s, "is set in line %u already; keep one of them", other->line);
	if (other != NULL && other->file == NULL && s->file == NULL && s->key[0] != '\0')
		return config_error(err, s, "given twice; keep one of them");
	if (src->nb == CONFIG_MAX_SETTINGS)
		return config_error(err, s, "more than %d settings", CONFIG_MAX_SETTINGS);
	src->settings[src->nb++] = *s;
	return 0;
}

static int
take_section(struct config_setting *cur, char *text, char *err)
{
	size_t n = strlen(text);

	cur->section[0] = cur->key[0] = cur->value[0] = '\0';
	cur->lost = true;
	if (text[n - 1] != ']' || n - 2 >= sizeof(cur->section))
		return config_fail(err, EINVAL, "%s:%u: '%.80s': a section must look like [daemon] or [port uroce0]",
			 cur->file, cur->line, text);
	text[n - 1] = '\0';
	strlcpy(cur->section, text + 1, sizeof(cur->section));
	cur->lost = false;
	return 0;
}

static int
take_key(struct config_setting *cur, char *text, char *err)
{
	char *value = strchr(text, '=');

	if (value == NULL)
		return config_fail(err, EINVAL, "%s:%u: '%.80s': must be a [section] or key = value", cur->file,
			 cur->line, text);
	*value++ = '\0';
	text = trim(text);
	value = trim(value);
	if (cur->section[0] == '\0')
		return config_fail(err, EINVAL,
			 "%s:%u: '%.60s' comes before any section; put it under [daemon] or [port uroceN]", cur->file,
			 cur->line, text);
	if (strlcpy(cur->key, text, sizeof(cur->key)) >= sizeof(cur->key) || text[0] == '\0') {
		cur->key[0] = cur->value[0] = '\0';
		return config_error(err, cur, "a key must have 1 to %d characters", CONFIG_NAME_BYTES - 1);
	}
	if (strlcpy(cur->value, value, sizeof(cur->value)) >= sizeof(cur->value) || value[0] == '\0')
		return config_error(err, cur, "a value must have 1 to %d characters", CONFIG_VALUE_BYTES - 1);
	return 0;
}

/** Refuse lines that are no text. */
static int
check_line(const struct config_setting *cur, char *line, size_t bytes, char *err)
{
	if (bytes > 0 && line[bytes - 1] == '\n')
		line[--bytes] = '\0';
	if (strlen(line) != bytes)
		return config_fail(err, EINVAL, "%s:%u: a byte 0 is in the line; a configuration is text", cur->file, cur->line);
	if (bytes > LINE_CHARS)
		return config_fail(err, EINVAL, "%s:%u: the line has %zu characters; at most %d, comments included", cur->file,
			 cur->line, bytes, LINE_CHARS);
	return 0;
}

static int
scan_line(struct config_source *src, struct config_setting *cur, char *line, size_t bytes, char *err)
{
	char *comment;
	int rc = check_line(cur, line, bytes, err);

	if (rc != 0)
		return rc;
	comment = strchr(line, COMMENT);
	if (comment != NULL)
		*comment = '\0';
	line = trim(line);
	if (line[0] == '\0')
		return 0;
	if (line[0] != '[' && cur->lost)
		return 0; /* nobody knows what the key belongs to */
	rc = line[0] == '[' ? take_section(cur, line, err) : take_key(cur, line, err);
	return rc != 0 ? rc : add(src, cur, err);
}

int
config_source_file(struct config_source *src, const char *file, struct config_problems *problems)
{
	struct config_setting cur = { .file = file };
	char *line = NULL, err[CONFIG_ERR_BYTES];
	bool more = true;
	size_t room = 0;
	ssize_t n;
	int rc = 0;
	FILE *f = fopen(file, "re");

	while (f != NULL && more && (n = getline(&line, &room, f)) >= 0) {
		cur.line++;
		if (scan_line(src, &cur, line, (size_t)n, err) != 0)
			more = config_problem(problems, err);
	}
	if (f == NULL || ferror(f)) {
		rc = f == NULL ? errno : EIO;
		snprintf(err, sizeof(err), "%s: cannot read the configuration: %s", file, strerror(rc));
		config_problem(problems, err);
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return rc != 0 ? rc : problems->nb > 0 ? EINVAL : 0;
}

int
config_source_set(struct config_source *src, const char *set, char *err)
{
	struct config_setting s = { .file = NULL };
	const char *eq = strchr(set, '='), *dot = NULL, *p;
	char text[CONFIG_NAME_BYTES + CONFIG_VALUE_BYTES];

	/* Section names contain no dot, values may. */
	for (p = set; eq != NULL && p < eq && dot == NULL; p++) {
		if (*p == '.')
			dot = p;
	}
	if (dot == NULL || dot == set || dot + 1 == eq || (size_t)(dot - set) >= sizeof(s.section) ||
	    (size_t)(eq - dot - 1) >= sizeof(s.key))
		return config_fail(err, EINVAL,
			 "--set '%.80s': must look like section.key=value, for example --set 'port uroce0.mtu=4200'",
			 set);
	memcpy(s.section, set, dot - set);
	memcpy(s.key, dot + 1, eq - dot - 1);
	if (strlcpy(text, eq + 1, sizeof(text)) >= sizeof(text) ||
	    strlcpy(s.value, trim(text), sizeof(s.value)) >= sizeof(s.value) || s.value[0] == '\0')
		return config_error(err, &s, "a value must have 1 to %d characters", CONFIG_VALUE_BYTES - 1);
	return add(src, &s, err);
}
