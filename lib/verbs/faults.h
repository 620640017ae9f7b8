/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The environment variable UROCE_FAULTS: errors that a program's own verbs are to have, so that its error paths are tested (docs/faults.md).
 * Here is its syntax; faults.c causes the errors.
 *
 * Owns: nothing. Thread: any.
 */
#ifndef UROCE_VERBS_FAULTS_H
#define UROCE_VERBS_FAULTS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_FAULTS_VARIABLE "UROCE_FAULTS"
/** The greatest number that a fault may have. */
#define CLIENT_FAULTS_MAX UINT64_C(1000000000)

/** How long a completion is kept from the program. */
#define CLIENT_FAULTS_LATE_NS UINT64_C(100000000)

/** What goes wrong. Each number counts from 1 in this process; 0: nothing. */
struct client_fault_plan {
	uint64_t reg_fail;        /**< this registration of memory fails with ENOMEM */
	uint64_t send_error;      /**< this send WR is posted with an invalid lkey */
	uint64_t recv_error;      /**< this receive WR is posted with an invalid lkey */
	uint64_t qp_error;        /**< before this send WR is posted, its QP goes to ERR */
	uint64_t device_fatal;    /**< before this send WR is posted, its device goes */
	uint64_t late_completion; /**< the program can poll this completion CLIENT_FAULTS_LATE_NS later */
	char log[PATH_MAX];       /**< a line for each fault is added to this file; "": nowhere */
};

/**
 * Parse a list like "send-error=100,qp-error=7".
 *
 * @param plan  Receives what is asked for.
 * @param err   Receives a message that says what was wrong and what would be right.
 * @return 0 or EINVAL.
 */
int client_faults_parse(const char *text, struct client_fault_plan *plan, char *err, size_t err_bytes);

#endif /* UROCE_VERBS_FAULTS_H */
