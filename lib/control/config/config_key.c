/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of values that keys of the configuration have. */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <bsd/string.h>
#include <rte_common.h>

#include "control/config/config_key_priv.h"
#include "control/config/config_source_priv.h"
#include "control/config/ids_priv.h"
#include "control/config/metrics_priv.h"

static int
want(char *err, size_t err_bytes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, err_bytes, fmt, ap);
	va_end(ap);
	return EINVAL;
}

int
config_number(const char *value, int base, uint64_t *out)
{
	char *end;

	if (!isxdigit((unsigned char)value[0]))
		return EINVAL;
	errno = 0;
	*out = strtoull(value, &end, base);
	return errno != 0 || *end != '\0' ? EINVAL : 0;
}

int
config_parse_u32(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	uint64_t v;

	if (config_number(value, 10, &v) != 0 || v < k->min || v > k->max)
		return want(err, err_bytes, "must be a number from %" PRIu64 " to %" PRIu64, k->min, k->max);
	*(uint32_t *)dst = (uint32_t)v;
	return 0;
}

int
config_parse_u16(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	uint32_t v = 0;
	int rc = config_parse_u32(k, value, &v, err, err_bytes);

	if (rc == 0)
		*(uint16_t *)dst = (uint16_t)v;
	return rc;
}

int
config_parse_mode(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	uint64_t v;

	if (config_number(value, 8, &v) != 0 || v > k->max)
		return want(err, err_bytes, "must be octal permission bits from 0 to 0777, for example 0660");
	*(uint32_t *)dst = (uint32_t)v;
	return 0;
}

int
config_parse_text(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	if (value[0] == '\0')
		return want(err, err_bytes, "must not be empty");
	memset(dst, 0, k->max); /* config_compare() compares the whole buffer */
	if (strlcpy(dst, value, k->max) >= k->max)
		return want(err, err_bytes, "must be shorter than %" PRIu64 " characters", k->max);
	return 0;
}

/** A group by name or number, as in chown(1). */
int
config_parse_group(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	uint64_t gid;
	int rc = config_parse_text(k, value, dst, err, err_bytes);

	/* The highest number means "unchanged" in chown(). */
	if (rc != 0 || getgrnam(value) != NULL || (config_number(value, 10, &gid) == 0 && gid < UINT32_MAX))
		return rc;
	return want(err, err_bytes, "no such group; make it (groupadd), or give one that `getent group` lists");
}

/** A user by name or number. */
int
config_parse_user(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	uint64_t uid;
	int rc = config_parse_text(k, value, dst, err, err_bytes);

	if (rc != 0 || getpwnam(value) != NULL || (config_number(value, 10, &uid) == 0 && uid < UINT32_MAX && getpwuid((uid_t)uid) != NULL))
		return rc;
	return want(err, err_bytes, "no such user; make one (useradd --system), or give one that `getent passwd` lists");
}

int
config_parse_path(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	if (value[0] != '/')
		return want(err, err_bytes, "must be an absolute path");
	return config_parse_text(k, value, dst, err, err_bytes);
}

int
config_parse_word(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	size_t n;

	for (unsigned int i = 0; k->words[i] != NULL; i++) {
		if (strcmp(value, k->words[i]) == 0) {
			*(uint32_t *)dst = i;
			return 0;
		}
	}
	n = strlcpy(err, "must be one of:", err_bytes);
	for (unsigned int i = 0; k->words[i] != NULL && n < err_bytes; i++)
		n += snprintf(err + n, err_bytes - n, " %s", k->words[i]);
	return EINVAL;
}

int
config_parse_switch(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	uint32_t v;
	int rc = config_parse_word(k, value, &v, err, err_bytes);

	if (rc == 0)
		*(bool *)dst = v != 0;
	return rc;
}

int
config_parse_gateway(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	return net_gateway_parse(value, k->max == 4 ? AF_INET : AF_INET6, dst, err, err_bytes);
}

int
config_parse_addresses(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	struct net_port_config *p = container_of(dst, struct net_port_config, addrs);
	char text[CONFIG_VALUE_BYTES], *rest = text, *word;

	strlcpy(text, value, sizeof(text));
	p->nb_addrs = 0;
	while ((word = strsep(&rest, " \t")) != NULL) {
		if (word[0] == '\0')
			continue;
		/* One entry of the GID table is the link-local address. */
		if (p->nb_addrs == k->max)
			return want(err, err_bytes, "at most %" PRIu64 " addresses fit the GID table", k->max);
		if (net_addr_parse(word, &p->addrs[p->nb_addrs], err, err_bytes) != 0)
			return EINVAL;
		for (unsigned int i = 0; i < p->nb_addrs; i++) {
			if (gid_equal(&p->addrs[i].gid, &p->addrs[p->nb_addrs].gid))
				return want(err, err_bytes,
					    "%s is given twice: give each address once, whatever its VLAN", word);
		}
		p->nb_addrs++;
	}
	return 0;
}

int
config_parse_routes(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	struct net_port_config *p = container_of(dst, struct net_port_config, routes);
	char text[CONFIG_VALUE_BYTES], *rest = text, *word;

	strlcpy(text, value, sizeof(text));
	p->nb_routes = 0;
	while ((word = strsep(&rest, ",")) != NULL) {
		word += strspn(word, " \t");
		for (size_t n = strlen(word); n > 0 && strchr(" \t", word[n - 1]) != NULL; n--)
			word[n - 1] = '\0';
		if (word[0] == '\0')
			continue;
		if (p->nb_routes == k->max)
			return want(err, err_bytes, "at most %" PRIu64 " routes", k->max);
		if (net_route_parse(word, &p->routes[p->nb_routes], err, err_bytes) != 0)
			return EINVAL;
		for (unsigned int i = 0; i < p->nb_routes; i++) {
			if (gid_equal(&p->routes[i].net, &p->routes[p->nb_routes].net) && p->routes[i].prefix == p->routes[p->nb_routes].prefix)
				return want(err, err_bytes, "there are two routes to the network of %s: give one router for each", word);
		}
		p->nb_routes++;
	}
	return 0;
}

int
config_parse_pkeys(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	uint16_t *pkeys = dst;
	char text[CONFIG_VALUE_BYTES], *rest = text, *word;
	unsigned int n = 0, i;
	uint64_t v;

	strlcpy(text, value, sizeof(text));
	memset(pkeys, 0, k->max * sizeof(*pkeys));
	while ((word = strsep(&rest, ", \t")) != NULL) {
		if (word[0] == '\0')
			continue;
		if (n == k->max)
			return want(err, err_bytes, "at most %" PRIu64 " P_Keys", k->max);
		if (config_number(word, 16, &v) != 0 || v > 0xffff || (v & 0x7fff) == 0)
			return want(err, err_bytes, "'%s' must be a P_Key in hexadecimal, for example 0xffff", word);
		for (i = 0; i < n; i++) {
			if (pkeys[i] == v)
				return want(err, err_bytes, "%s is given twice: give each P_Key once", word);
		}
		pkeys[n++] = (uint16_t)v;
	}
	return n > 0 ? 0 : want(err, err_bytes, "must have at least one P_Key, for example 0xffff");
}

int
config_parse_ids(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	return config_ids_parse(value, k->max != 0, dst, err, err_bytes);
}

int
config_parse_impair(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	struct config_port *p = container_of(dst, struct config_port, impair);

	p->impaired = true;
	return impair_parse(value, &p->impair, err, err_bytes);
}

int
config_parse_metrics(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes)
{
	union metrics_address a;

	if (config_metrics_parse(value, &a) == 0)
		return want(err, err_bytes, "must be unix:/PATH, 127.0.0.1:PORT or [::1]:PORT");
	return config_parse_text(k, value, dst, err, err_bytes);
}
