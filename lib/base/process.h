/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * How far another process has come that is to end. Thread: any.
 */
#ifndef UROCE_BASE_PROCESS_H
#define UROCE_BASE_PROCESS_H

enum process_state {
	PROCESS_RUNS,
	/**
	 * None of its threads will run any of its code again. The kernel still closes its descriptors, which takes milliseconds for each packet socket
	 * (net/packet/af_packet.c, packet_release() waits for RCU).
	 */
	PROCESS_ENDS,
	PROCESS_GONE, /**< everything of it is closed */
};

/** @param pidfd  From pidfd_open(). Of a process in another PID namespace, or that we may not look at, PROCESS_ENDS is never seen. */
enum process_state process_state(int pidfd);
/** @return the number of the process, by which SO_PEERCRED names it, too; 0: it is gone, or has none in our PID namespace. */
int process_number(int pidfd);

#endif /* UROCE_BASE_PROCESS_H */
