/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Reading journals: what is known of each once it is open. Owns nothing that others may change. One thread.
 */
#ifndef UROCE_TP_JOURNAL_READ_H
#define UROCE_TP_JOURNAL_READ_H

#include "transport/core/types_priv.h"
#include "transport/journal/slot_priv.h"
#include "wire/wire.h"

/** A journal. */
struct journal {
	const struct journal_head *head;
	const struct journal_list *list;
	const struct journal_srq *srqs;
	const _Atomic uint64_t *owed;
	const struct journal_counters *counters;
	const uint8_t *slots;
	struct journal_member members[JOURNAL_MEMBERS]; /**< where they are in images */
	struct journal_limits limits;
	uint64_t turn, dying;   /**< the last one that counts; the one after it, which was being made */
	uint32_t nb_items;      /**< of the turn that counts, which may not have been shown */
	uint32_t nb_atomics;    /**< of the turn that doesn't */
	uint32_t used;          /**< slots of QPs */
	bool list_lost;         /**< they are damaged, and taken for none */
	bool open;              /**< else it can't be read, and has nothing */
};

/** A QP. */
struct journal_found {
	uint32_t qpn, slot, copy;
	unsigned int engine;
	bool lost, leaving;
};

struct journals {
	unsigned int nb;
	uint32_t nb_qps;
	struct journal_found *qps;
	struct journal all[];
};

enum journal_counts { JOURNAL_COUNTS, JOURNAL_NOTHING, JOURNAL_DAMAGED };
/** Find out which of two copies counts. @param whole  Its sum is right. */
enum journal_counts journal_which(const struct journal *j, const uint64_t tag[2], const uint64_t prev[2], const bool whole[2], uint32_t *which);

#endif /* UROCE_TP_JOURNAL_READ_H */
