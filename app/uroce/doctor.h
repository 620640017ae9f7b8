/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The findings of `uroce doctor`: the machine and the daemon (cmd_doctor.c), the network (doctor_network.c); and the question whether a path
 * carries packets of some size, which setup has, too (path.c).
 */
#ifndef UROCE_DOCTOR_H
#define UROCE_DOCTOR_H

#include <stdbool.h>

enum verdict { GOOD, NOTE, FAULT };
enum { ROCE_HEADERS = 40 + 8 + 12 + 16 + 4 + 4 /* IPv6, UDP, BTH, RETH, ImmDt, ICRC */ };

/** Add a finding. @param remedy  NULL: none is needed. */
void found(const char *what, enum verdict v, const char *remedy, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/** Look for rules of nftables and iptables that stop packets of RoCE v2. */
void check_firewall(void);
/** Look for the largest RoCE MTU that packets to @p peer may have. */
void check_peer(const char *peer);

/** @return MiB of hugepages that are reserved; @p free gets how many are free. */
long hugepages_mib(long *free);
/** @return whether a file system of this type is mounted. */
bool is_mounted(const char *type);
/** @return whether a socket of the kernel, in this network namespace, has the UDP port of RoCE v2. */
bool kernel_has_roce_port(void);

enum path { PATH_NO, PATH_YES, PATH_UNKNOWN /**< there is no ping(8) */ };
/**
 * Ask by ping(8), at most a second, whether @p peer gets packets that nobody may break up.
 * @param interface  by which; NULL: as the kernel's routes say
 * @param bytes  of the IP packet
 */
enum path path_carries(const char *peer, const char *interface, int bytes);
/** @return the largest RoCE MTU with which packets fit into IP packets of @p bytes; 256 if none does. */
int roce_mtu(int bytes);

#endif /* UROCE_DOCTOR_H */
