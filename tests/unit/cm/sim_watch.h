/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What both halves of the observer use: sim_watch.c, which knows of calls, arrivals, events and counters, and sim_sent.c, which checks what is sent.
 */
#ifndef TEST_CM_SIM_WATCH_H
#define TEST_CM_SIM_WATCH_H

#include "sim.h"

static inline uint64_t
time_ns(unsigned int code)
{
	return UINT64_C(4096) << code;
}

static inline uint32_t
local_id(const uint8_t *mad)
{
	return (uint32_t)wire_bits(mad, WIRE_LOCAL_ID, 0, 32);
}

static inline uint32_t
remote_id(const uint8_t *mad)
{
	return (uint32_t)wire_bits(mad, WIRE_REMOTE_ID, 0, 32);
}

static inline uint16_t
attr_of(const uint8_t *mad)
{
	return (uint16_t)wire_bits(mad, WIRE_ATTR, 0, 16);
}

static inline const char *
name_of(const uint8_t *mad)
{
	return cm_attr_name(attr_of(mad));
}

static inline void
note_again(struct host *h)
{
	h->nb_again++;
}

/** Fail unless two MADs are the same. */
void must_equal(const struct world *w, const uint8_t *mad, const uint8_t *expected, const char *what);
bool same_av(const struct cm_av *a, const struct cm_av *b);
/** @return the end of a pair that has this ID, or NULL. */
struct wire_end *find_end(struct world *w, unsigned int host, uint32_t id, struct pair **of, unsigned int *side);
/** What an end has sent is the last of its connection now. */
void note_sent(struct host *h, struct pair *p, unsigned int side, const uint8_t *mad);
/** @return MADs that were answered without a connection since the present arrival began. */
uint64_t stateless(const struct host *h);

#endif /* TEST_CM_SIM_WATCH_H */
