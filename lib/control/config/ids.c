/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/config/ids_priv.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "control/config/config_source_priv.h"

/** @return the id of a user, or group, that @p word is the name or number of; UINT32_MAX: there is none. */
static uint32_t
id_of(const char *word, bool group)
{
	const struct group *g = group ? getgrnam(word) : NULL;
	const struct passwd *u = group ? NULL : getpwnam(word);
	unsigned long long id;
	char *end;

	if (g != NULL)
		return g->gr_gid;
	if (u != NULL)
		return u->pw_uid;
	errno = 0;
	id = strtoull(word, &end, 10);
	return isdigit((unsigned char)word[0]) && *end == '\0' && errno == 0 && id < UINT32_MAX ? (uint32_t)id : UINT32_MAX;
}

int
config_ids_parse(const char *value, bool groups, struct config_ids *l, char *err, size_t err_bytes)
{
	char text[CONFIG_VALUE_BYTES], *rest = text, *word;
	uint32_t id;

	strlcpy(text, value, sizeof(text));
	memset(l, 0, sizeof(*l)); /* config_compare() compares all of it */
	l->all = strcmp(value, "*") == 0;
	if (l->all)
		return 0;
	while ((word = strsep(&rest, ", \t")) != NULL) {
		if (word[0] == '\0')
			continue;
		if (l->nb == CONFIG_SHARE_MEMBERS) {
			snprintf(err, err_bytes, "at most %d", CONFIG_SHARE_MEMBERS);
			return EINVAL;
		}
		id = id_of(word, groups);
		if (id == UINT32_MAX) {
			snprintf(err, err_bytes, "no such %s '%s'; give names or numbers that `getent %s` lists, or * for all",
				 groups ? "group" : "user", word, groups ? "group" : "passwd");
			return EINVAL;
		}
		l->ids[l->nb++] = id;
	}
	if (l->nb > 0)
		return 0;
	snprintf(err, err_bytes, "must name at least one, or * for all");
	return EINVAL;
}
