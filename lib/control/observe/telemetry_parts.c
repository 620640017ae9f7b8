/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers to build answers of telemetry. */
#include <stdio.h>

#include <bsd/string.h>

#include "control/observe/counters_priv.h"
#include "control/observe/telemetry_priv.h"

bool
tel_number(const char *params, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(params, &end, 0);
	return params[0] >= '0' && params[0] <= '9' && *end == '\0' && errno == 0;
}

int
tel_port_index(const struct control *c, const char *name)
{
	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		if (strcmp(c->s.ports[i]->conf.name, name) == 0)
			return (int)i;
	return -1;
}

/** Add @p in, which may be NULL, as @p name. @return it, or NULL: no memory. */
static struct rte_tel_data *
add_container(struct rte_tel_data *d, const char *name, struct rte_tel_data *in)
{
	if (in == NULL || rte_tel_data_add_dict_container(d, name, in, 0) == 0)
		return in;
	rte_tel_data_free(in);
	return NULL;
}

struct rte_tel_data *
tel_dict(struct rte_tel_data *d, const char *name)
{
	struct rte_tel_data *in = rte_tel_data_alloc();

	if (in != NULL)
		rte_tel_data_start_dict(in);
	return add_container(d, name, in);
}

struct rte_tel_data *
tel_array(struct rte_tel_data *d, const char *name, enum rte_tel_value_type type)
{
	struct rte_tel_data *in = rte_tel_data_alloc();

	if (in != NULL)
		rte_tel_data_start_array(in, type);
	return add_container(d, name, in);
}

void
tel_text(struct rte_tel_data *d, const char *name, const char *text)
{
	struct rte_tel_data *a = tel_array(d, name, RTE_TEL_STRING_VAL);
	char piece[RTE_TEL_MAX_STRING_LEN];

	for (; a != NULL && text[0] != '\0'; text += strlen(piece)) {
		strlcpy(piece, text, sizeof(piece));
		rte_tel_data_add_array_string(a, piece);
	}
}

void
tel_strings(struct rte_tel_data *d, const char *name, char *list, const char *delimiters)
{
	struct rte_tel_data *a = tel_array(d, name, RTE_TEL_STRING_VAL);
	char *item;

	while (a != NULL && (item = strsep(&list, delimiters)) != NULL)
		if (item[0] != '\0')
			rte_tel_data_add_array_string(a, item);
}

int
tel_unknown(struct rte_tel_data *d, const char *what, const char *params, const char *known)
{
	char text[CONFIG_ERR_BYTES];

	snprintf(text, sizeof(text), "no %s '%s'; there are: %s", what, params, known);
	rte_tel_data_start_dict(d);
	tel_text(d, "error", text);
	return 0;
}

int
tel_error(struct rte_tel_data *d, const char *text)
{
	rte_tel_data_start_dict(d);
	tel_text(d, "error", text);
	return 0;
}

void
tel_number_list(struct rte_tel_data *d, const uint64_t *numbers, uint32_t n, uint32_t all)
{
	struct rte_tel_data *a;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "all", all);
	a = tel_array(d, "numbers", RTE_TEL_UINT_VAL);
	for (uint32_t i = 0; a != NULL && i < n; i++)
		rte_tel_data_add_array_uint(a, numbers[i]);
}

void
tel_counters(struct rte_tel_data *d, const struct counter_table *t, const void *base)
{
	for (unsigned int i = 0; d != NULL && i < t->n; i++)
		rte_tel_data_add_dict_uint(d, t->counter[i].name, counter_value(t, i, base));
}
