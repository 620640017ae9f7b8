/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The tables behind mad.c. Owns: nothing. Called by mad.c and by the tests that check the tables against
 * themselves.
 */
#ifndef UROCE_CM_MAD_FIELDS_H
#define UROCE_CM_MAD_FIELDS_H

#include <stdint.h>

/** A field: where it is on the wire, and where in the struct. */
struct mad_field {
	uint16_t bit;     /**< first bit, counted from the most significant one behind the header */
	uint16_t bits;
	uint16_t offset;  /**< of the struct's member */
	uint16_t size;    /**< of the member: up to 8 a number, more a string of bytes */
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
