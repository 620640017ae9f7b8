/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What each PMD supports and how it is configured. Thread: control.
 */
#ifndef UROCE_PMD_PRIV_H
#define UROCE_PMD_PRIV_H

#include "net/net.h"

struct rte_eth_dev_info;

/** A PMD's properties for one ethdev. */
struct pmd_profile {
	bool shared;      /**< shares a kernel interface */
	bool carries_mtu; /**< set: IP MTU is not ethdev's but a matter of max_frame (and, if shared, the kernel) */
	bool needs_peer;  /**< starts only if the other side is there (memif, role=client) */
	bool peer_messages; /**< it handles its peer's messages on EAL's interrupt thread, without a lock (memif) */
	bool interrupts;  /**< the device may have RX interrupts; of others the PMD complains when asked for them */
	bool looks_at_link; /**< its interrupt for changes of the link isn't used, ethdev asks the device each time */
	bool filters_vlans; /**< the device lets through only VLANs that it was told of, also if it wasn't asked to filter */
	bool spreads_unasked; /**< the device spreads flows over the queues without RSS, which the port doesn't ask for then */
	bool xdp;         /**< RX memory is the pool itself, in pieces of at most a page */
	char wire[NET_WIRE_BYTES];   /**< memif: socket and number of the wire */
	char netdev[NET_NAME_BYTES]; /**< shared: kernel interface */
	char xdp_prog[256];          /**< af_xdp: devarg xdp_prog */
	uint32_t max_frame;          /**< bytes, including a VLAN tag */
	uint16_t default_mtu;        /**< IP MTU without a configured one, if carries_mtu; 0: all that it carries */
	uint32_t pool_room;          /**< data room that the PMD needs in an mbuf, without headroom; 0: that of the frame */
	const char *mappings;        /**< how names of the PMD's shared mappings begin in /proc/self/maps, or NULL */
	const char *queue_devarg;    /**< devarg that sets the number of queues, or NULL */
	const char *size_devarg;     /**< devarg to change for larger frames, or NULL */
};
/** Fill in @p prof from the driver's name and devargs. @return 0, or EINVAL with a message. */
int pmd_profile_get(const struct rte_eth_dev_info *info, const char *devargs, struct pmd_profile *prof, char *err,
		    size_t err_bytes);
/**
 * Have the kernel put pages into the PMD's shared mappings, which are as large as all buffers of its queues. Otherwise the first packet in each
 * buffer takes a page fault, and the first thousands a tenth of a second.
 */
void pmd_populate(const struct pmd_profile *prof);
/** Create the RX pool for net_af_xdp. @return NULL with a message. */
struct rte_mempool *pmd_xdp_pool_create(const char *name, unsigned int nb_queues, unsigned int desc, int socket,
					char *err, size_t err_bytes);
/** @return the size of the largest frame that fits a chunk of pmd_xdp_pool_create(). */
uint32_t pmd_xdp_max_frame(void);

/**
 * Explain why there is no ethdev with this name although EAL was given a --vdev for it.
 * @return @p text; "": EAL wasn't.
 */
char *pmd_vdev_missing(const char *ethdev, char *text, size_t bytes);

/* ---- vhost.c ---- */
/** @return true if a --vdev of that name is net_vhost's: its devarg iface is the path of a socket, not an interface. */
bool vhost_has_name(const char *vdev);
/**
 * See to it that net_vhost can use the socket at @p path. One that a daemon has left there, and at which nobody listens, is removed.
 * @param client  The virtual machine makes it.
 * @return 0, or EINVAL with a message.
 */
int vhost_check_socket(const char *path, bool client, char *err, size_t err_bytes);

/** Have the library of net_vhost log no more than what matters. */
void vhost_log_less(void);

/* ---- pci.c ---- */
/** @return whether @p name is a PCI address like 0000:03:00.0. */
bool pci_is_address(const char *name);
/** @return whether there is such a device and its driver lets DPDK have it; another one's must not be touched. @param root  As for pci_missing(). */
bool pci_may_be_opened(const char *root, const char *address);
/**
 * Explain why there is no ethdev for a PCI device, and what would help.
 * @param root  In front of /sys and /dev; "": the machine's.
 * @return @p text; "": @p address is none.
 */
char *pci_missing(const char *root, const char *address, char *text, size_t bytes);

#endif /* UROCE_PMD_PRIV_H */
