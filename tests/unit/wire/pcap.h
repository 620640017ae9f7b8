/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Reads classic pcap files, little-endian, Ethernet. Owns the file's bytes. Used by the tests of lib/wire.
 */
#ifndef TEST_WIRE_PCAP_H
#define TEST_WIRE_PCAP_H

#include <stdbool.h>
#include <stdint.h>

struct pcap {
	uint8_t *bytes;
	long size, pos;
};

/** @return false if the file can't be read or is no pcap file of Ethernet frames. */
bool pcap_open(struct pcap *p, const char *path);
void pcap_close(struct pcap *p);
/** @return the next frame and its length, NULL at the end or if the file ends in the middle of a frame. */
const uint8_t *pcap_next(struct pcap *p, uint32_t *len);

/** Called for each frame of each capture in tests/golden. */
typedef void (*golden_fn)(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg);
/** Fails the running test if there is no capture. */
void golden_for_each(golden_fn fn, void *arg);

#endif /* TEST_WIRE_PCAP_H */
