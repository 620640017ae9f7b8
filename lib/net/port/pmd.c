/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What each PMD supports. PMDs that emulate a wire in software tell their frame size only in their devargs: ethdev's
 * max_rx_pktlen is 1518 for them whatever their buffers are, so ethdev's MTU can't be used. docs/ports.md has the same
 * numbers for users.
 *
 * For RoCE MTU 4096 (IP packets of 4192 bytes, frames of 4210):
 *   net_af_packet  framesz=4352,blocksz=69632,framecnt=512
 *                  blocksz must be a multiple of framesz: the PMD walks its ring in steps of framesz, but the kernel
 *                  begins each block at a page
 *   net_memif      bsize=4352 on both sides; the client's counts, as it owns the memory
 *   net_af_xdp     can't: a chunk of an XDP socket's memory is at most a page (net/xdp/xdp_umem.c), and the 22.11 PMD
 *                  does not chain chunks; RoCE MTU 2048
 *   net_vhost      nothing: it has no limit
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/if_packet.h>
#include <net/if.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_ethdev.h>
#include <rte_errno.h>
#include <rte_kvargs.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>

#include "net/port/pmd_priv.h"

enum {
	AF_PACKET_DEFAULT_FRAMESZ = 2048, /* drivers/net/af_packet, DFLT_FRAME_SIZE */
	MEMIF_DEFAULT_BSIZE = 2048,       /* drivers/net/memif, ETH_MEMIF_DEFAULT_PKT_BUFFER_SIZE */
	XDP_HEADROOM = 256,     /* linux/bpf.h, XDP_PACKET_HEADROOM: the kernel keeps it free before each frame */
	XDP_CHUNK_BYTES = 4096, /* a page: the most the kernel takes */
	XDP_RING = 2048,        /* XSK_RING_CONS__DEFAULT_NUM_DESCS: what the PMD puts into fill and completion rings */
	XDP_SPARE = 1024,       /* held by the engine */
	XDP_CACHE = 256,
	DEFAULT_OVERHEAD = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN,
	POPULATE_BYTES = 256 << 10,
};

struct devargs {
	const char *iface, *framesz, *bsize, *role, *id, *socket, *xdp_prog, *client;
};

static int
copy_text(char *to, size_t bytes, const char *from, const char *what, char *err, size_t err_bytes)
{
	if (from == NULL || from[0] == '\0') {
		snprintf(err, err_bytes, "devarg %s is missing", what);
		return EINVAL;
	}
	if ((size_t)snprintf(to, bytes, "%s", from) >= bytes) {
		snprintf(err, err_bytes, "devarg %s=%s is longer than %zu characters", what, from, bytes - 1);
		return EINVAL;
	}
	return 0;
}

static uint32_t
number(const char *text, uint32_t otherwise)
{
	unsigned long v = text != NULL ? strtoul(text, NULL, 0) : otherwise;

	return v > UINT16_MAX ? UINT16_MAX : (uint32_t)v;
}

/** RX: the kernel aligns the network header behind struct tpacket2_hdr and sockaddr_ll (net/packet/af_packet.c,
 * tpacket_rcv). */
static uint32_t
af_packet_mac_offset(void)
{
	return TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - WIRE_ETH_BYTES;
}

static int
profile_af_packet(const struct devargs *a, struct pmd_profile *prof, char *err, size_t err_bytes)
{
	uint32_t framesz = number(a->framesz, AF_PACKET_DEFAULT_FRAMESZ);

	prof->shared = true;
	prof->carries_mtu = true;
	/* On RX a VLAN tag is delivered outside the frame; count it as part of the frame for TX, where it is inside. */
	prof->max_frame = framesz > af_packet_mac_offset() ? framesz - af_packet_mac_offset() : 0;
	prof->pool_room = framesz - (TPACKET2_HDRLEN - sizeof(struct sockaddr_ll));
	prof->queue_devarg = "qpairs";
	prof->size_devarg = "framesz=4352,blocksz=69632,framecnt=512";
	return copy_text(prof->netdev, sizeof(prof->netdev), a->iface, "iface", err, err_bytes);
}

uint32_t
pmd_xdp_max_frame(void)
{
	const unsigned int before = RTE_CACHE_LINE_SIZE /* mempool's object header */ + sizeof(struct rte_mbuf) +
				    RTE_PKTMBUF_HEADROOM;

	return XDP_CHUNK_BYTES - before - XDP_HEADROOM;
}

static int
profile_af_xdp(const struct devargs *a, struct pmd_profile *prof, char *err, size_t err_bytes)
{
	prof->shared = true;
	prof->carries_mtu = true;
	prof->xdp = true;
	prof->max_frame = pmd_xdp_max_frame();
	prof->queue_devarg = "queue_count";
	if (a->xdp_prog == NULL) {
		snprintf(err, err_bytes,
			 "devarg xdp_prog is missing: without it the PMD takes all packets of %s from the kernel; add "
			 "xdp_prog=/path/to/uroce_xdp.o",
			 a->iface != NULL ? a->iface : "the interface");
		return EINVAL;
	}
	if (access(a->xdp_prog, R_OK) != 0) {
		snprintf(err, err_bytes, "devarg xdp_prog=%s: %s", a->xdp_prog, strerror(errno));
		return EINVAL;
	}
	if (copy_text(prof->xdp_prog, sizeof(prof->xdp_prog), a->xdp_prog, "xdp_prog", err, err_bytes) != 0)
		return EINVAL;
	return copy_text(prof->netdev, sizeof(prof->netdev), a->iface, "iface", err, err_bytes);
}

/** Frames that need more than one buffer are not supported with this PMD: it leaves stale chain flags behind (net/memif
 * until 26.03). */
static int
profile_memif(const struct devargs *a, struct pmd_profile *prof, char *err, size_t err_bytes)
{
	/* The PMD's default is client; master is the old word for server. */
	prof->needs_peer = a->role == NULL || (strstr(a->role, "server") == NULL && strstr(a->role, "master") == NULL);
	prof->peer_messages = true;
	prof->carries_mtu = true;
	prof->max_frame = number(a->bsize, MEMIF_DEFAULT_BSIZE);
	prof->size_devarg = "bsize=4352 (on both sides)";
	prof->mappings = "/memfd:memif_region";
	/* A name that is too long for this is left out: then nobody finds the other end. */
	if (snprintf(prof->wire, sizeof(prof->wire), "%s %lu", a->socket != NULL ? a->socket : "", a->id != NULL ? strtoul(a->id, NULL, 0) : 0) >=
	    (int)sizeof(prof->wire))
		prof->wire[0] = '\0';
	return 0;
}

/** It copies frames of any length, and knows nothing of an MTU. */
static int
profile_vhost(const struct devargs *a, struct pmd_profile *prof, char *err, size_t err_bytes)
{
	prof->carries_mtu = true;
	prof->max_frame = UINT16_MAX;
	prof->default_mtu = RTE_ETHER_MTU; /* Linux's virtio_net has the same */
	prof->queue_devarg = "queues";
	vhost_log_less();
	return vhost_check_socket(a->iface, number(a->client, 0) != 0, err, err_bytes);
}

void
pmd_populate(const struct pmd_profile *prof)
{
	char line[512], *name;
	uintptr_t begin, end;
	FILE *f;

	if (prof->mappings == NULL)
		return;
	f = fopen("/proc/self/maps", "re");
	if (f == NULL)
		return;
	while (fgets(line, sizeof(line), f) != NULL) {
		name = strchr(line, '/');
		if (name == NULL || strncmp(name, prof->mappings, strlen(prof->mappings)) != 0 ||
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR " rw", &begin, &end) != 2)
			continue;
		/*
		 * Where the kernel can't (before 5.14), packets take the page faults. By parts, as whoever changes mappings meanwhile waits for a call, and everybody's
		 * page faults wait for that.
		 */
		for (uintptr_t at = begin; at < end; at += POPULATE_BYTES)
			madvise((void *)at, RTE_MIN(end - at, (uintptr_t)POPULATE_BYTES), MADV_POPULATE_WRITE);
	}
	fclose(f);
}

static const struct {
	const char *driver;
	int (*profile)(const struct devargs *a, struct pmd_profile *prof, char *err, size_t err_bytes);
} drivers[] = {
	{ "net_af_packet", profile_af_packet },
	{ "net_af_xdp", profile_af_xdp },
	{ "net_memif", profile_memif },
	{ "net_vhost", profile_vhost },
};

static void
profile_generic(const struct rte_eth_dev_info *info, struct pmd_profile *prof)
{
	uint32_t overhead = DEFAULT_OVERHEAD;

	/* The way ethdev itself derives it (lib/ethdev, eth_dev_get_overhead_len). */
	if (info->max_mtu != UINT16_MAX && info->max_rx_pktlen > info->max_mtu)
		overhead = info->max_rx_pktlen - info->max_mtu;
	prof->max_frame = info->max_rx_pktlen;
	if (info->max_mtu != UINT16_MAX && info->max_mtu + overhead < prof->max_frame)
		prof->max_frame = info->max_mtu + overhead;
	prof->interrupts = info->device != NULL && (strcmp(rte_bus_name(rte_dev_bus(info->device)), "vdev") != 0 ||
						    strcmp(info->driver_name, "net_tap") == 0);
	/*
	 * net_e1000_em sets up no MSI-X vectors, and if there is only one interrupt, the RX queue's takes the place of the link's.
	 * net_vmxnet3 asks the register ECR what an interrupt was for, and QEMU's device writes that to the shared memory only.
	 * ethdev would go on to tell the link's state as it was when the port started.
	 */
	prof->looks_at_link = strcmp(info->driver_name, "net_e1000_em") == 0 || strcmp(info->driver_name, "net_vmxnet3") == 0;
	/* net_virtio takes VIRTIO_NET_F_CTRL_VLAN wherever the device offers it, and the device then begins with no VLAN (virtio 1.2, 5.1.6.5.3). */
	prof->filters_vlans = strcmp(info->driver_name, "net_virtio") == 0 && (info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0;
	/*
	 * A device with VIRTIO_NET_F_MQ steers by itself (virtio 1.2, 5.1.6.5.6). QEMU without vhost and eBPF does RSS in software: a packet from one queue of its
	 * backend goes to any queue of the device. If that one is full, the backend's queue stops, and goes on when the device's queue of its own number gets
	 * buffers, which may be never (hw/net/virtio-net.c: virtio_net_receive_rcu(), virtio_net_handle_rx()).
	 */
	prof->spreads_unasked = strcmp(info->driver_name, "net_virtio") == 0;
}

int
pmd_profile_get(const struct rte_eth_dev_info *info, const char *devargs, struct pmd_profile *prof, char *err,
		size_t err_bytes)
{
	struct rte_kvargs *kv = NULL;
	struct devargs a = { 0 };
	unsigned int i;
	int rc;

	memset(prof, 0, sizeof(*prof));
	for (i = 0; i < RTE_DIM(drivers); i++)
		if (strcmp(info->driver_name, drivers[i].driver) == 0)
			break;
	if (i == RTE_DIM(drivers)) {
		profile_generic(info, prof);
		return 0;
	}
	if (devargs != NULL) {
		kv = rte_kvargs_parse(devargs, NULL);
		if (kv == NULL) {
			snprintf(err, err_bytes, "devargs %s are not of the form key=value,...", devargs);
			return EINVAL;
		}
		a.iface = rte_kvargs_get(kv, "iface");
		a.framesz = rte_kvargs_get(kv, "framesz");
		a.role = rte_kvargs_get(kv, "role");
		a.id = rte_kvargs_get(kv, "id");
		a.socket = rte_kvargs_get(kv, "socket");
		a.bsize = rte_kvargs_get(kv, "bsize");
		a.xdp_prog = rte_kvargs_get(kv, "xdp_prog");
		a.client = rte_kvargs_get(kv, "client");
	}
	rc = drivers[i].profile(&a, prof, err, err_bytes);
	rte_kvargs_free(kv);
	return rc;
}

static struct rte_mempool *
xdp_pool_fill(struct rte_mempool *mp)
{
	struct rte_pktmbuf_pool_private priv = {
		.mbuf_data_room_size = (uint16_t)(mp->elt_size - sizeof(struct rte_mbuf)),
	};

	if (rte_mempool_set_ops_byname(mp, rte_mbuf_best_mempool_ops(), NULL) != 0)
		return NULL;
	rte_pktmbuf_pool_init(mp, &priv);
	if (rte_mempool_populate_default(mp) < 0)
		return NULL;
	rte_mempool_obj_iter(mp, rte_pktmbuf_init, NULL);
	return mp;
}

/*
 * The PMD gives the pool's memory to the kernel, one mbuf with its mempool header per chunk. So an object is at most a
 * page, the memory must be one piece (the PMD knows only the first), and neither I/O addresses nor spreading over
 * memory channels matter.
 */
struct rte_mempool *
pmd_xdp_pool_create(const char *name, unsigned int nb_queues, unsigned int desc, int socket, char *err,
		    size_t err_bytes)
{
	const unsigned int flags = RTE_MEMPOOL_F_NO_SPREAD | RTE_MEMPOOL_F_NO_IOVA_CONTIG;
	const unsigned int elt = XDP_CHUNK_BYTES - RTE_CACHE_LINE_SIZE;
	const unsigned int nb = nb_queues * (XDP_RING + desc + XDP_RING + XDP_SPARE);
	struct rte_mempool *mp;

	if (rte_mempool_calc_obj_size(elt, flags, NULL) > XDP_CHUNK_BYTES) {
		snprintf(err, err_bytes,
			 "DPDK was built with mempool debugging, which leaves no room for a page in net_af_xdp");
		return NULL;
	}
	mp = rte_mempool_create_empty(name, nb, elt, XDP_CACHE, sizeof(struct rte_pktmbuf_pool_private), socket, flags);
	if (mp == NULL) {
		snprintf(err, err_bytes, "RX pool of %u buffers for net_af_xdp: %s", nb, rte_strerror(rte_errno));
		return NULL;
	}
	if (xdp_pool_fill(mp) == NULL) {
		snprintf(err, err_bytes,
			 "no memory for %u page-sized RX buffers for net_af_xdp: needs %u MB; give EAL more (-m, or "
			 "more "
			 "hugepages)",
			 nb, (nb * XDP_CHUNK_BYTES) >> 20);
		rte_mempool_free(mp);
		return NULL;
	}
	if (mp->nb_mem_chunks != 1) {
		snprintf(err, err_bytes,
			 "the RX pool for net_af_xdp needs %u MB in one piece; give EAL more memory (-m, or more "
			 "hugepages)",
			 (nb * XDP_CHUNK_BYTES) >> 20);
		rte_mempool_free(mp);
		return NULL;
	}
	return mp;
}

/** @return whether a driver has taken the device of a --vdev. */
static bool
vdev_is_taken(const char *name)
{
	struct rte_dev_iterator it;
	struct rte_device *dev;
	char which[128];
	bool taken = false;

	snprintf(which, sizeof(which), "bus=vdev,name=%s", name);
	RTE_DEV_FOREACH(dev, which, &it)
		taken |= rte_dev_is_probed(dev) != 0;
	return taken;
}

/** @return what makes interface @p iface, if that is a VLAN of one that there is; or "". @param text  @p bytes long. */
static const char *
make_vlan(const char *iface, char *text, size_t bytes)
{
	const char *dot = strrchr(iface, '.');
	char parent[IF_NAMESIZE];
	unsigned long id = dot != NULL ? strtoul(dot + 1, NULL, 10) : 0;

	text[0] = '\0';
	if (id < 1 || id > 4094 || (size_t)(dot - iface) >= sizeof(parent))
		return text;
	snprintf(parent, sizeof(parent), "%.*s", (int)(dot - iface), iface);
	if (if_nametoindex(parent) != 0)
		snprintf(text, bytes, "; to make it: ip link add link %s name %s type vlan id %lu", parent, iface, id);
	return text;
}

char *
pmd_vdev_missing(const char *ethdev, char *text, size_t bytes)
{
	const struct rte_devargs *d;
	struct rte_kvargs *kv;
	const char *iface;
	char vlan[128];

	text[0] = '\0';
	RTE_EAL_DEVARGS_FOREACH("vdev", d)
	{
		if (strcmp(d->name, ethdev) != 0 || vdev_is_taken(ethdev))
			continue;
		kv = rte_kvargs_parse(d->args, NULL);
		iface = kv != NULL ? rte_kvargs_get(kv, "iface") : NULL;
		if (vhost_has_name(ethdev) && iface == NULL)
			snprintf(text, bytes, "--vdev %s lacks devarg iface, the socket at which the virtual machine is met: iface=/run/uroce/vm1.sock", d->name);
		else if (iface != NULL && !vhost_has_name(ethdev) && if_nametoindex(iface) == 0)
			snprintf(text, bytes, "there is no interface %s, which --vdev %s,%s names; `ip link` lists those that there are%s", iface, d->name,
				 d->args, make_vlan(iface, vlan, sizeof(vlan)));
		else
			snprintf(text, bytes, "its driver refused --vdev %s%s%s: the lines of EAL above say why%s", d->name, d->args[0] != '\0' ? "," : "",
				 d->args, iface != NULL && !vhost_has_name(ethdev) && geteuid() != 0 ? "; an interface of the kernel needs root or CAP_NET_RAW" : "");
		rte_kvargs_free(kv);
	}
	return text;
}
