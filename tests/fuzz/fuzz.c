/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading programs, and changing them. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNKS_MAX = 512, REPEAT_MAX = 8, REPAIR_OF = 8, REPAIR_NOT = 1 };

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/**
 * Memory that was freed is used again after 4 MiB instead of 256: that is more than an input frees, and stays in the cache
 * (five times the speed).
 */
const char *
__asan_default_options(void)
{
	return "quarantine_size_mb=4:thread_local_quarantine_size_kb=64:allocator_release_to_os_interval_ms=-1:"
	       "clear_shadow_mmap_threshold=16777216:malloc_context_size=12:detect_stack_use_after_return=0:handle_sigbus=0";
}

const char *
__ubsan_default_options(void)
{
	return "print_stacktrace=1:halt_on_error=1";
}

void
fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: this doesn't hold: %s\n", file, line, what);
	abort();
}

/* ---- Reading ---- */
uint64_t
fuzz_uint(struct fuzz_in *in, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes; i++)
		v |= (uint64_t)fuzz_u8(in) << 8 * i;
	return v;
}

size_t
fuzz_bytes(struct fuzz_in *in, void *out, size_t n)
{
	size_t have = fuzz_left(in) < n ? fuzz_left(in) : n;

	if (have > 0)
		memcpy(out, in->at, have);
	memset((uint8_t *)out + have, 0, n - have);
	in->at += have;
	return have;
}

uint8_t *
fuzz_copy(struct fuzz_in *in, size_t *n)
{
	size_t have = fuzz_left(in) < *n ? fuzz_left(in) : *n;
	uint8_t *copy = malloc(have);

	FUZZ_CHECK(copy != NULL || have == 0);
	*n = fuzz_bytes(in, copy, have);
	return copy;
}

bool
fuzz_chunk(struct fuzz_in *in, uint8_t *kind, struct fuzz_in *body)
{
	size_t n;

	if (fuzz_left(in) < FUZZ_CHUNK_HEAD)
		return false;
	*kind = fuzz_u8(in);
	n = fuzz_u16(in) % (FUZZ_CHUNK_MAX + 1);
	n = n < fuzz_left(in) ? n : fuzz_left(in);
	*body = (struct fuzz_in){ in->at, in->at + n };
	in->at += n;
	return true;
}

/* ---- Changing ---- */
/** Where the chunks of a program begin; the last entry is its end. */
struct layout {
	size_t n, at[CHUNKS_MAX + 1];
};

static void
find_chunks(struct layout *l, const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size), body;
	uint8_t kind;

	l->n = 0;
	l->at[0] = 0;
	while (l->n < CHUNKS_MAX && fuzz_chunk(&in, &kind, &body))
		l->at[++l->n] = (size_t)(in.at - data);
}

static uint32_t
next_random(uint32_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 17;
	*rng ^= *rng << 5;
	return *rng;
}

static void
put_head(uint8_t *chunk, uint8_t kind, size_t body_bytes)
{
	chunk[0] = kind;
	chunk[1] = (uint8_t)body_bytes;
	chunk[2] = (uint8_t)(body_bytes >> 8);
}

/** Put @p n bytes at @p at, and move what is behind. @return the new size; the old one, if there is no room. */
static size_t
insert(uint8_t *data, size_t size, size_t max_size, size_t at, const uint8_t *bytes, size_t n)
{
	if (n > max_size - size)
		return size;
	memmove(data + at + n, data + at, size - at);
	memcpy(data + at, bytes, n);
	return size + n;
}

static size_t
insert_new(uint8_t *data, size_t size, size_t max_size, size_t at, uint32_t *rng, size_t body_bytes)
{
	uint8_t chunk[FUZZ_CHUNK_HEAD + FUZZ_CHUNK_MAX];

	for (size_t i = 0; i < body_bytes; i++) {
		/* Small numbers name objects and choose among few. */
		chunk[FUZZ_CHUNK_HEAD + i] = (uint8_t)(next_random(rng) % (next_random(rng) % 2 ? 4 : 256));
	}
	put_head(chunk, (uint8_t)(next_random(rng) % 64), body_bytes);
	return insert(data, size, max_size, at, chunk, FUZZ_CHUNK_HEAD + body_bytes);
}

static size_t
repeat(uint8_t *data, size_t size, size_t max_size, const struct layout *l, uint32_t *rng)
{
	size_t from = next_random(rng) % l->n, to = next_random(rng) % (l->n + 1);
	size_t last = from + 1 + next_random(rng) % REPEAT_MAX, n;
	uint8_t *copy;

	last = last < l->n ? last : l->n;
	n = l->at[last] - l->at[from];
	copy = malloc(n);
	FUZZ_CHECK(copy != NULL);
	memcpy(copy, data + l->at[from], n);
	size = insert(data, size, max_size, l->at[to], copy, n);
	free(copy);
	return size;
}

static size_t
take_out(uint8_t *data, size_t size, const struct layout *l, uint32_t *rng)
{
	size_t from = next_random(rng) % l->n, last = from + 1 + next_random(rng) % REPEAT_MAX;

	last = last < l->n ? last : l->n;
	memmove(data + l->at[from], data + l->at[last], size - l->at[last]);
	return size - (l->at[last] - l->at[from]);
}

/** Change the body of one chunk as libFuzzer changes inputs. */
static size_t
change_body(uint8_t *data, size_t size, size_t max_size, const struct layout *l, uint32_t *rng, fuzz_repair_fn repair)
{
	size_t i = next_random(rng) % l->n, at = l->at[i], old = l->at[i + 1] - at, n = old - FUZZ_CHUNK_HEAD;
	uint8_t chunk[FUZZ_CHUNK_HEAD + FUZZ_CHUNK_MAX];
	size_t room = max_size - size + n < FUZZ_CHUNK_MAX ? max_size - size + n : FUZZ_CHUNK_MAX;

	memcpy(chunk, data + at, old);
	if (room > 0 && n <= room)
		n = LLVMFuzzerMutate(chunk + FUZZ_CHUNK_HEAD, n, next_random(rng) % 4 != 0 && n > 0 ? n : room);
	if (repair != NULL && next_random(rng) % REPAIR_OF >= REPAIR_NOT)
		n = repair(chunk[0], chunk + FUZZ_CHUNK_HEAD, n, room);
	put_head(chunk, chunk[0], n);
	memmove(data + at, data + at + old, size - at - old);
	return insert(data, size - old, max_size, at, chunk, FUZZ_CHUNK_HEAD + n);
}

size_t
fuzz_program_change(uint8_t *data, size_t size, size_t max_size, unsigned int seed, size_t body_bytes, fuzz_repair_fn repair)
{
	uint32_t rng = seed * 2654435761u | 1;
	struct layout l;

	find_chunks(&l, data, size);
	/* What is behind the last chunk has no meaning. */
	size = l.at[l.n];
	if (l.n == 0)
		return insert_new(data, size, max_size, 0, &rng, body_bytes);
	switch (next_random(&rng) % 10) {
	case 0:
	case 1:
		return insert_new(data, size, max_size, l.at[next_random(&rng) % (l.n + 1)], &rng, body_bytes);
	case 2:
		return repeat(data, size, max_size, &l, &rng);
	case 3:
		return take_out(data, size, &l, &rng);
	case 4:
		data[l.at[next_random(&rng) % l.n]] = (uint8_t)(next_random(&rng) % 64);
		return size;
	default:
		return change_body(data, size, max_size, &l, &rng, repair);
	}
}

size_t
fuzz_program_cross(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out, size_t max_out,
		   unsigned int seed)
{
	uint32_t rng = seed * 2654435761u | 1;
	struct layout la, lb;
	size_t first, from, n;

	find_chunks(&la, a, a_size);
	find_chunks(&lb, b, b_size);
	first = la.at[next_random(&rng) % (la.n + 1)];
	from = next_random(&rng) % (lb.n + 1);
	first = first < max_out ? first : 0;
	for (n = lb.n; n > from && lb.at[n] - lb.at[from] > max_out - first; n--)
		;
	memcpy(out, a, first);
	memcpy(out + first, b + lb.at[from], lb.at[n] - lb.at[from]);
	return first + lb.at[n] - lb.at[from];
}
