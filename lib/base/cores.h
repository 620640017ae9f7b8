/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a measurement says about the cores it ran on: threads that poll are fast only if each has a core of its own.
 *
 * Owns: nothing. Thread: any.
 */
#ifndef UROCE_CORES_H
#define UROCE_CORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CORES_TEXT_BYTES = 160 };

struct cores {
	unsigned int pollers;  /**< threads that polled: loops of engines, and programs */
	unsigned int cpus;     /**< CPUs that these threads were allowed to use */
	uint64_t late_turns;   /**< during the measurement; see struct engine_stats */
};

/** @return true if pollers had to share a CPU, or lost it to another thread. */
bool cores_scarce(const struct cores *c);
/**
 * Write one line for people, without a line feed: "4 pollers on 2 cores, 132 late turns: ...".
 * @param bytes  Size of @p text; CORES_TEXT_BYTES are enough.
 * @return @p text.
 */
char *cores_text(const struct cores *c, char *text, size_t bytes);

#endif /* UROCE_CORES_H */
