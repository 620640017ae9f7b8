/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The tables used by mad.c. Owns: nothing. Called by mad.c, and by tests that check the tables for consistency.
 */
#ifndef UROCE_CM_MAD_FIELDS_H
#define UROCE_CM_MAD_FIELDS_H

#include <stdint.h>

/** A field: its position in the message and in the struct. */
struct mad_field {
	uint16_t bit;     /**< first bit, counted from the most significant one after the header */
	uint16_t bits;
	uint16_t offset;  /**< of the struct's member */
	uint16_t size;    /**< of the member: up to 8 bytes a number, else a byte string */
};

struct mad_message {
	const char *name;
	const struct mad_field *fields;
	unsigned int nb_fields;
	uint16_t private_offset; /**< in the struct */
	uint16_t private_bytes;
};

/** @return the message with this attribute ID, or NULL. */
const struct mad_message *mad_message(uint16_t attr_id);

#endif /* UROCE_CM_MAD_FIELDS_H */
