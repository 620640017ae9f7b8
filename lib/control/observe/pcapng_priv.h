/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A pcapng file (draft-ietf-opsawg-pcapng), written block by block. DPDK 22.11's rte_pcapng has no comments on
 * packets, which say here why one was dropped.
 *
 * Owns: nothing; the caller has the FILE. Thread: the caller's.
 */
#ifndef UROCE_PCAPNG_H
#define UROCE_PCAPNG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct pcapng_packet {
	uint64_t ns;         /**< since 1970 */
	uint32_t interface;  /**< in the order of pcapng_interface() */
	uint32_t bytes, captured;
	bool tx;
	const char *comment; /**< or NULL */
	const uint8_t *data;
};

/** The file's first block. */
void pcapng_begin(FILE *f, const char *application, const char *comment);
/** An Ethernet interface. */
void pcapng_interface(FILE *f, const char *name, uint32_t snap_bytes);
void pcapng_packet(FILE *f, const struct pcapng_packet *p);
/** What an interface has seen, at the end. */
void pcapng_statistics(FILE *f, uint32_t interface, uint64_t ns, uint64_t received, uint64_t dropped);

#endif /* UROCE_PCAPNG_H */
