/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/subuid_priv.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct range {
	uint64_t first, count;
	uid_t owner;
};

struct subuids {
	uint32_t nb;
	struct range ranges[]; /* by their first id */
};

static bool
number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *out <= UINT32_MAX;
}

/** Parse NAME:FIRST:COUNT, where NAME may also be a user id. @return false: it is no such line, or there is no such user. */
static bool
parse(char *line, struct range *out)
{
	char *rest = line, *name, *first, *count;
	const struct passwd *pw;
	uint64_t uid;

	line[strcspn(line, "\n")] = '\0';
	name = strsep(&rest, ":");
	first = strsep(&rest, ":");
	count = strsep(&rest, ":");
	if (name[0] == '\0' || name[0] == '#' || first == NULL || count == NULL || rest != NULL || !number(first, &out->first) ||
	    !number(count, &out->count) || out->count == 0)
		return false;
	pw = getpwnam(name);
	if (pw != NULL)
		out->owner = pw->pw_uid;
	else if (number(name, &uid))
		out->owner = (uid_t)uid;
	else
		return false;
	return true;
}

static int
by_first(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

struct subuids *
subuid_read(const char *path)
{
	FILE *f = fopen(path, "re");
	struct subuids *s = NULL, *grown;
	uint32_t nb = 0, room = 0;
	struct range r;
	char line[512];

	if (f == NULL)
		return NULL;
	while (nb < SUBUID_MAX && fgets(line, sizeof(line), f) != NULL) {
		if (!parse(line, &r))
			continue;
		if (nb == room) {
			room = room == 0 ? 16 : room * 2;
			grown = realloc(s, sizeof(*s) + room * sizeof(r));
			if (grown == NULL)
				break;
			s = grown;
		}
		s->ranges[nb++] = r;
	}
	fclose(f);
	if (s != NULL) {
		s->nb = nb;
		qsort(s->ranges, nb, sizeof(r), by_first);
	}
	return s;
}

void
subuid_free(struct subuids *s)
{
	free(s);
}

uid_t
subuid_owner(const struct subuids *s, uid_t uid)
{
	uint32_t low = 0, high = s != NULL ? s->nb : 0, mid;

	/* Ranges of different users don't overlap in a sane file, so the last one that begins at or before the id decides. */
	while (low < high) {
		mid = low + (high - low) / 2;
		if (s->ranges[mid].first <= uid)
			low = mid + 1;
		else
			high = mid;
	}
	return low > 0 && uid - s->ranges[low - 1].first < s->ranges[low - 1].count ? s->ranges[low - 1].owner : uid;
}
