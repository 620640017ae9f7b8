/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the fuzz targets share: reading an input as a program, changing it without breaking its form, EAL for a process
 * without hugepages.
 *
 * A target defines LLVMFuzzerTestOneInput() (libFuzzer's interface). Its input is one of
 *
 *  - bytes, as they are: a file, a parameter;
 *  - a program: a sequence of chunks, each an operation with its arguments. The target runs them one after the other against the
 *    real code, so that an input can build up state. libFuzzer's own changes would shift everything behind the place that
 *    they insert at; FUZZ_PROGRAM() gives the target changes that insert, remove, repeat and change whole chunks.
 *
 * A target must behave the same for the same input whatever ran before: it undoes everything at the end. Clocks are virtual.
 *
 * Thread: one.
 */
#ifndef UROCE_FUZZ_H
#define UROCE_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mempool;

/** libFuzzer's interface. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
				 size_t max_out, unsigned int seed);

/** End the process, as a finding, unless @p cond holds. */
#define FUZZ_CHECK(cond) \
	do { \
		if (!(cond)) \
			fuzz_fail(__FILE__, __LINE__, #cond); \
	} while (0)
void fuzz_fail(const char *file, int line, const char *what) __attribute__((noreturn));

/* ---- Reading ---- */
/** What is left of an input. */
struct fuzz_in {
	const uint8_t *at, *end;
};

static inline struct fuzz_in
fuzz_in(const uint8_t *data, size_t size)
{
	return (struct fuzz_in){ data, data + size };
}
static inline size_t
fuzz_left(const struct fuzz_in *in)
{
	return (size_t)(in->end - in->at);
}
/** The next bytes, little-endian; what is missing at the end is zero. */
uint64_t fuzz_uint(struct fuzz_in *in, unsigned int bytes);
static inline uint8_t
fuzz_u8(struct fuzz_in *in)
{
	return in->at < in->end ? *in->at++ : 0;
}
static inline uint16_t
fuzz_u16(struct fuzz_in *in)
{
	return (uint16_t)fuzz_uint(in, 2);
}
static inline uint32_t
fuzz_u32(struct fuzz_in *in)
{
	return (uint32_t)fuzz_uint(in, 4);
}
static inline uint64_t
fuzz_u64(struct fuzz_in *in)
{
	return fuzz_uint(in, 8);
}
/** @return a number below @p n, which is 1 to 256; takes a byte. */
static inline unsigned int
fuzz_below(struct fuzz_in *in, unsigned int n)
{
	return fuzz_u8(in) % n;
}
/** Copy the next @p n bytes; what is missing is zero. @return bytes that there were. */
size_t fuzz_bytes(struct fuzz_in *in, void *out, size_t n);
/** @return the next @p n bytes, or all that are left, in memory of exactly that size. The caller frees it. */
uint8_t *fuzz_copy(struct fuzz_in *in, size_t *n);

/* ---- Programs ---- */
enum {
	FUZZ_CHUNK_HEAD = 3,      /**< kind, and two bytes with the number of bytes that follow */
	FUZZ_CHUNK_MAX = 2048,    /**< bytes behind the head */
};

/**
 * Take the next chunk. Its kind is what the target makes of the byte (mostly modulo the number of its operations).
 * @param body  Gets what is behind the head.
 * @return false: the program has ended.
 */
bool fuzz_chunk(struct fuzz_in *in, uint8_t *kind, struct fuzz_in *body);

/**
 * Repairs a chunk after a change: checksums, lengths. Called for most changes, not for all.
 * @return the number of bytes that it has now, at most @p max.
 */
typedef size_t (*fuzz_repair_fn)(uint8_t kind, uint8_t *body, size_t size, size_t max);

/** LLVMFuzzerCustomMutator() of programs. @param body_bytes  Of a chunk that is inserted. @param repair  May be NULL. */
size_t fuzz_program_change(uint8_t *data, size_t size, size_t max_size, unsigned int seed, size_t body_bytes,
			   fuzz_repair_fn repair);
/** LLVMFuzzerCustomCrossOver() of programs: the beginning of one, the end of the other. */
size_t fuzz_program_cross(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out, size_t max_out,
			  unsigned int seed);

#define FUZZ_PROGRAM(body_bytes, repair) \
	size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) \
	{ \
		return fuzz_program_change(data, size, max_size, seed, body_bytes, repair); \
	} \
	size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out, \
					 size_t max_out, unsigned int seed) \
	{ \
		return fuzz_program_cross(a, a_size, b, b_size, out, max_out, seed); \
	}

/* ---- EAL (eal.c) ---- */
/** Initialize EAL: no hugepages, no files, one lcore. Once per process, from LLVMFuzzerInitialize(). */
void fuzz_eal(void);
/** The same and a pool of packet buffers. */
struct rte_mempool *fuzz_pool(unsigned int mbufs);

/* ---- Frames (frame.c) ---- */
/**
 * Make lengths and checksums of an Ethernet frame right: of IP, UDP, ICMP and IGMP, and the ICRC of what is for port 4791.
 * What isn't IP remains as it is.
 */
void fuzz_frame_repair(uint8_t *frame, size_t size);

/* ---- Memory (big_alloc.c) ---- */
/** @return true if a large block is in use: at the end of an input a leak. */
bool fuzz_big_in_use(void);

#endif /* UROCE_FUZZ_H */
