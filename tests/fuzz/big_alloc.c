/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps large blocks that the code under test frees, and gives them out again. AddressSanitizer maps and unmaps each block
 * of more than 128 KiB, and every page of it costs a fault: with a new transport per input that was 95 % of the time. A block
 * that is kept is poisoned, so that use after free is found as before. Linked by --wrap=calloc and --wrap=free.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <sanitizer/asan_interface.h>

enum { BIG_BYTES = 64 << 10, BIG_MAX = 32 };

static struct {
	void *mem;
	size_t bytes;
	bool used;
} big[BIG_MAX];
static unsigned int nb_big;

void *__real_calloc(size_t n, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t size);
void __wrap_free(void *p);

void *
__wrap_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes < BIG_BYTES)
		return __real_calloc(n, size);
	for (unsigned int i = 0; i < nb_big; i++) {
		if (big[i].used || big[i].bytes != bytes)
			continue;
		big[i].used = true;
		ASAN_UNPOISON_MEMORY_REGION(big[i].mem, bytes);
		return memset(big[i].mem, 0, bytes);
	}
	if (nb_big == BIG_MAX)
		return __real_calloc(n, size);
	big[nb_big].mem = __real_calloc(n, size);
	if (big[nb_big].mem == NULL)
		return NULL;
	big[nb_big].bytes = bytes;
	big[nb_big].used = true;
	return big[nb_big++].mem;
}

void
__wrap_free(void *p)
{
	for (unsigned int i = 0; i < nb_big; i++) {
		if (big[i].mem != p)
			continue;
		FUZZ_CHECK(big[i].used);
		big[i].used = false;
		ASAN_POISON_MEMORY_REGION(p, big[i].bytes);
		return;
	}
	__real_free(p);
}

bool
fuzz_big_in_use(void)
{
	for (unsigned int i = 0; i < nb_big; i++)
		if (big[i].used)
			return true;
	return false;
}
