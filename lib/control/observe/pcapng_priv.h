/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Writing a pcapng file (draft-ietf-opsawg-pcapng), block by block. DPDK 22.11's rte_pcapng has no packet
 * comments, which are used here to say why a packet was dropped.
 *
 * Owns: nothing; the FILE is the caller's. Thread: the caller's.
 */
#ifndef UROCE_PCAPNG_H
#define UROCE_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pcapng_packet {
	uint64_t ns;         /**< since 1970 */
	uint32_t interface;  /**< number of its pcapng_interface() call, from 0 */
	uint32_t bytes, captured;
	bool tx, local;      /**< sent; from the host to itself; neither: received */
	const char *comment; /**< or NULL */
	const uint8_t *data;
};

/** Write the file's first block. */
void pcapng_begin(FILE *f, const char *application, const char *comment);
/** Write the description of an Ethernet interface. */
void pcapng_interface(FILE *f, const char *name, uint32_t snap_bytes);
void pcapng_packet(FILE *f, const struct pcapng_packet *p);
/** Write the totals of an interface, at the end. */
void pcapng_statistics(FILE *f, uint32_t interface, uint64_t ns, uint64_t received, uint64_t dropped);

#endif /* UROCE_PCAPNG_H */
