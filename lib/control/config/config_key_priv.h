/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A key of the configuration, and the kinds of values that keys have.
 *
 * Called by: config.c. Thread: main, control.
 */
#ifndef UROCE_CONFIG_KEY_H
#define UROCE_CONFIG_KEY_H

#include <stddef.h>
#include <stdint.h>

struct config_key;

/** Parses @p value into @p dst. @return 0, or EINVAL with what would be right in @p err. */
typedef int config_parse_fn(const struct config_key *k, const char *value, void *dst, char *err, size_t err_bytes);

struct config_key {
	const char *name;
	size_t offset; /**< of the field in struct uroced_config or struct config_port */
	size_t bytes;  /**< of the field */
	config_parse_fn *parse;
	uint64_t min, max;        /**< of a number; for a string, max is the size of its buffer */
	const char *const *words; /**< the values of a choice */
};

/** Read a number that begins with a digit of @p base. @return 0 or EINVAL. */
int config_number(const char *value, int base, uint64_t *out);

/* The kinds of values: config_key.parse. */
config_parse_fn config_parse_u32, config_parse_u16, config_parse_mode, config_parse_text, config_parse_group, config_parse_user, config_parse_path,
	config_parse_word, config_parse_switch, config_parse_gateway, config_parse_routes, config_parse_addresses, config_parse_pkeys, config_parse_ids, config_parse_impair, config_parse_metrics;

#endif /* UROCE_CONFIG_KEY_H */
