/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which of some words did somebody mean who wrote another?
 *
 * Thread: any.
 */
#ifndef UROCE_NEAR_H
#define UROCE_NEAR_H

#include <stddef.h>

/** The best of the words that near_look() has seen. Begin with { 0 }. */
struct near {
	const char *word; /**< NULL: none is near */
	size_t distance;  /**< letters to change, add or remove */
};

/** Remember @p word if it is nearer to @p written than those before, and near enough to have been meant. */
void near_look(struct near *n, const char *written, const char *word);

#endif /* UROCE_NEAR_H */
