/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --vdev net_impairN. A driver of that name can't be registered, for want of DPDK's driver headers: so the application
 * takes these options out of EAL's and attaches what they say itself.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "impair.h"

#define DRIVER "net_impair"
#define EXAMPLE "--vdev net_impair0,port=net_memif0,loss=0.01"

/** @return the value of --vdev in argv[i], *@p words of it; NULL if it isn't one of ours. */
static char *
our_vdev(int argc, char **argv, int i, int *words)
{
	char *value = NULL;

	*words = 1;
	if (strncmp(argv[i], "--vdev=", strlen("--vdev=")) == 0) {
		value = argv[i] + strlen("--vdev=");
	} else if (strcmp(argv[i], "--vdev") == 0 && i + 1 < argc) {
		value = argv[i + 1];
		*words = 2;
	}
	return value != NULL && strncmp(value, DRIVER, strlen(DRIVER)) == 0 ? value : NULL;
}

/** The name ends at the first comma. @return false if it isn't net_impair and a number. */
static bool
take_name(struct impair_vdev *d, const char *text, size_t n)
{
	if (n <= strlen(DRIVER) || n >= sizeof(d->name))
		return false;
	memcpy(d->name, text, n);
	d->name[n] = '\0';
	for (const char *c = d->name + strlen(DRIVER); *c != '\0'; c++)
		if (!isdigit((unsigned char)*c))
			return false;
	return true;
}

/** Sort the arguments: port= is ours, the rest are settings. */
static int
take_arguments(struct impair_vdev *d, const char *text, char *err, size_t n)
{
	char *copy = strdup(text), *settings = calloc(1, strlen(text) + 1), *save, *item;

	d->settings = settings; /* lives as long as the process */
	if (copy == NULL || settings == NULL) {
		free(copy);
		snprintf(err, n, "--vdev %s: no memory", d->name);
		return ENOMEM;
	}
	for (item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
		if (strncmp(item, "port=", strlen("port=")) != 0) {
			if (settings[0] != '\0')
				strcat(settings, ",");
			strcat(settings, item);
			continue;
		}
		item += strlen("port=");
		if (d->port[0] != '\0' || item[0] == '\0' || strlen(item) >= sizeof(d->port)) {
			snprintf(err, n, "--vdev %s: port=%s: must be the name of one ethdev, of 1 to %zu characters", d->name,
				 item, sizeof(d->port) - 1);
			free(copy);
			return EINVAL;
		}
		strcpy(d->port, item);
	}
	free(copy);
	return 0;
}

static int
parse(struct impair_vdevs *v, const char *text, char *err, size_t n)
{
	struct impair_vdev *d = &v->vdev[v->n];
	size_t name = strcspn(text, ",");
	char why[256];
	int rc;

	if (v->n == IMPAIR_VDEVS_MAX) {
		snprintf(err, n, "--vdev %.*s: more than %d of them", (int)name, text, IMPAIR_VDEVS_MAX);
		return EINVAL;
	}
	*d = (struct impair_vdev){ 0 };
	if (!take_name(d, text, name)) {
		snprintf(err, n, "--vdev %.*s: must be net_impair and a number, for example " EXAMPLE, (int)name, text);
		return EINVAL;
	}
	rc = take_arguments(d, text + name, err, n);
	if (rc != 0)
		return rc;
	if (d->port[0] == '\0') {
		snprintf(err, n, "--vdev %s: port= is missing: name the ethdev to impair, for example " EXAMPLE, d->name);
		return EINVAL;
	}
	if (impair_parse(d->settings, &d->params, why, sizeof(why)) != 0) {
		snprintf(err, n, "--vdev %s: %s", d->name, why);
		return EINVAL;
	}
	for (unsigned int i = 0; i < v->n; i++) {
		if (strcmp(v->vdev[i].name, d->name) == 0 || strcmp(v->vdev[i].port, d->port) == 0) {
			snprintf(err, n, "--vdev %s,port=%s: %s impairs %s already: give each its own name and port", d->name,
				 d->port, v->vdev[i].name, v->vdev[i].port);
			return EINVAL;
		}
	}
	v->n++;
	return 0;
}

int
impair_vdevs_take(int *argc, char **argv, struct impair_vdevs *v, char *err, size_t err_bytes)
{
	int out = 1, words, rc;

	v->n = 0;
	for (int i = 1; i < *argc; i += words) {
		const char *text = our_vdev(*argc, argv, i, &words);

		if (text == NULL) {
			argv[out++] = argv[i];
			words = 1;
			continue;
		}
		rc = parse(v, text, err, err_bytes);
		if (rc != 0)
			return rc;
	}
	if (*argc > 0 && out < *argc) {
		*argc = out;
		argv[out] = NULL;
	}
	return 0;
}
