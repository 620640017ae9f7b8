/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Frames for a port, most of which are nearly right. No I/O: storm_packets.c has that. Thread: one.
 */
#ifndef STORM_PACKETS_H
#define STORM_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storm/targets.h"

/* Addresses of the port and of the storm, as in test_storm.py. */
#define STORM_MAC "02:18:00:00:09:02"
enum { STORM_FRAME_MAX = 4200 };

struct packets;

/** @param golden  A folder of captures. Exits if there are none. */
struct packets *packets_new(const struct storm_targets *targets, const char *golden, uint64_t seed);
/** @return whether the targets are there. */
bool packets_ready(const struct packets *p);
/** The port has sent this. */
void packets_seen(struct packets *p, const uint8_t *frame, size_t bytes);
/** Make the next frame, at most STORM_FRAME_MAX bytes. @return its bytes; 0: there is nothing to answer, and no target yet, or none any more. */
size_t packets_next(struct packets *p, uint8_t *frame);
/** Ask the port for its MAC address. @return the bytes of @p frame. */
size_t packets_arp_request(uint8_t *frame);
/** @return whether a frame is the answer to that. */
bool packets_is_arp_reply(const uint8_t *frame, size_t bytes);
/** From now on make nothing but answers to ARP. */
void packets_only_arp(struct packets *p);
/** How many of which kind were made, and seen. */
void packets_print(const struct packets *p);

#endif /* STORM_PACKETS_H */
