/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of device, port, GIDs and P_Keys, and device attributes that are known without asking the daemon. */
#include "base/gid.h"
#include "verbs/client_priv.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* The types as numbered for sysfs (enum ibv_gid_type_sysfs of rdma-core). */
enum { GID_SYSFS_ROCE_V1 = 0, GID_SYSFS_ROCE_V2 = 1 };

static int
ask(struct ibv_context *context, enum ctl_op op, struct client_call *c)
{
	client_call_init(c, op);
	return client_call(to_ctx(context), c);
}

static void
fill_device_attr(const struct ctl_device_query_rsp *r, struct ibv_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	memcpy(a->fw_ver, r->fw_ver, sizeof(a->fw_ver));
	a->fw_ver[sizeof(a->fw_ver) - 1] = 0;
	a->node_guid = r->node_guid;
	a->sys_image_guid = r->sys_image_guid;
	a->max_mr_size = r->max_mr_size;
	a->page_size_cap = r->page_size_cap;
	a->vendor_id = r->vendor_id;
	a->vendor_part_id = r->vendor_part_id;
	a->hw_ver = r->hw_ver;
	a->max_qp = r->max_qp;
	a->max_qp_wr = r->max_qp_wr;
	a->device_cap_flags = r->device_cap_flags;
	a->max_sge = r->max_sge;
	a->max_sge_rd = r->max_sge_rd;
	a->max_cq = r->max_cq;
	a->max_cqe = r->max_cqe;
	a->max_mr = r->max_mr;
	a->max_pd = r->max_pd;
	a->max_qp_rd_atom = r->max_qp_rd_atom;
	a->max_res_rd_atom = r->max_res_rd_atom;
	a->max_qp_init_rd_atom = r->max_qp_init_rd_atom;
	a->atomic_cap = r->atomic_cap;
	a->max_mw = r->max_mw;
	a->max_mcast_grp = r->max_mcast_grp;
	a->max_mcast_qp_attach = r->max_mcast_qp_attach;
	a->max_total_mcast_qp_attach = r->max_total_mcast_qp_attach;
	a->max_ah = r->max_ah;
	a->max_srq = r->max_srq;
	a->max_srq_wr = r->max_srq_wr;
	a->max_srq_sge = r->max_srq_sge;
	a->max_pkeys = r->max_pkeys;
	a->local_ca_ack_delay = r->local_ca_ack_delay;
	a->phys_port_cnt = r->phys_port_cnt;
}

CLIENT_EXPORT int
ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct client_call c;
	int err = ask(context, CTL_DEVICE_QUERY, &c);

	if (!err)
		fill_device_attr(&c.rsp.device_query, attr);
	return err;
}

/*
 * On-demand paging serves all operations: how memory is reached makes no difference to them. A daemon in the same process uses memory by
 * its address, so it has to be there.
 */
static void
fill_odp(const struct client_ctx *ctx, struct ibv_device_attr_ex *a)
{
	const uint32_t datagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t connected = datagrams | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

	if (ctx->wait)
		return;
	a->odp_caps = (struct ibv_odp_caps){
		.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
		.per_transport_caps = { connected, datagrams | IBV_ODP_SUPPORT_WRITE, datagrams },
	};
	a->xrc_odp_caps = connected;
}

int
client_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
		       struct ibv_device_attr_ex *attr, size_t bytes)
{
	struct ibv_device_attr_ex full;
	struct client_call c;
	int err;

	if (in && in->comp_mask)
		return EINVAL;
	if (bytes < sizeof(struct ibv_device_attr))
		return EOPNOTSUPP;
	err = ask(context, CTL_DEVICE_QUERY, &c);
	if (err)
		return err;
	memset(&full, 0, sizeof(full));
	fill_device_attr(&c.rsp.device_query, &full.orig_attr);
	full.device_cap_flags_ex = c.rsp.device_query.device_cap_flags_ex;
	full.phys_port_cnt_ex = c.rsp.device_query.phys_port_cnt;
	full.completion_timestamp_mask = c.rsp.device_query.hca_core_clock_khz ? UINT64_MAX : 0;
	full.hca_core_clock = c.rsp.device_query.hca_core_clock_khz;
	full.max_dm_size = UROCE_MAX_DM_BYTES;
	fill_odp(to_ctx(context), &full);
	full.cq_mod_caps = (struct ibv_cq_moderation_caps){ .max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX };
	/* Programs built with older headers have a shorter struct, those built with newer ones a longer. */
	memset(attr, 0, bytes);
	memcpy(attr, &full, bytes < sizeof(full) ? bytes : sizeof(full));
	return 0;
}

/* The clock of completion time stamps. As with other devices, all ticks are in tv_nsec. */
int
client_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;
	struct timespec now;

	values->comp_mask = 0;
	if (!(asked & IBV_VALUES_MASK_RAW_CLOCK))
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	values->raw_clock = (struct timespec){ .tv_nsec = now.tv_sec * INT64_C(1000000000) + now.tv_nsec };
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

int
client_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t bytes)
{
	const struct ctl_port_query_rsp *r;
	struct ibv_port_attr full;
	struct client_call c;
	int err;

	if (port != 1)
		return EINVAL;
	err = ask(context, CTL_PORT_QUERY, &c);
	if (err)
		return err;
	r = &c.rsp.port_query;
	memset(&full, 0, sizeof(full));
	full.state = r->state;
	full.max_mtu = r->max_mtu;
	full.active_mtu = r->active_mtu;
	full.gid_tbl_len = r->gid_tbl_len;
	full.port_cap_flags = r->port_cap_flags;
	full.max_msg_sz = r->max_msg_sz;
	full.bad_pkey_cntr = r->bad_pkey_cntr;
	full.qkey_viol_cntr = r->qkey_viol_cntr;
	full.pkey_tbl_len = r->pkey_tbl_len;
	full.max_vl_num = 1;
	full.active_width = r->active_width;
	full.active_speed = r->active_speed;
	full.phys_state = r->phys_state;
	full.link_layer = r->link_layer;
	full.port_cap_flags2 = r->port_cap_flags2;
	memset(attr, 0, bytes);
	memcpy(attr, &full, bytes < sizeof(full) ? bytes : sizeof(full));
	return 0;
}

/* Programs built before port_cap_flags2 existed have no room for it. */
CLIENT_EXPORT int
ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return client_query_port(context, port, (struct ibv_port_attr *)attr,
				 offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* @return 0; EINVAL: no such port or index; ENODATA: unused entry, whose GID is all zeros. */
static int
get_gid(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *e)
{
	struct client_call c;
	int err;

	if (port != 1 || index >= UROCE_MAX_GIDS)
		return EINVAL;
	err = ask(context, CTL_GID_TABLE, &c);
	if (err)
		return err;
	memset(e, 0, sizeof(*e));
	memcpy(e->gid.raw, c.rsp.gid_table.gid[index], sizeof(e->gid.raw));
	e->gid_index = index;
	e->port_num = port;
	e->gid_type = IBV_GID_TYPE_ROCE_V2;
	e->ndev_ifindex = c.rsp.gid_table.ndev_ifindex;
	return gid_is_zero(gid_at(e->gid.raw)) ? ENODATA : 0;
}

CLIENT_EXPORT int
ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry e;
	int err = get_gid(context, port, index, &e);

	/* An unused entry is not an error here. */
	if (err && err != ENODATA)
		return client_fail(err);
	*gid = e.gid;
	return 0;
}

CLIENT_EXPORT int
_ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		  uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry e;
	int err;

	if (flags)
		return EOPNOTSUPP;
	if (entry_size < sizeof(e))
		return EINVAL;
	err = get_gid(context, port, index, &e);
	if (err) {
		/* In rdma-core ioctl() sets it, and some programs print it (Mooncake). */
		errno = err;
		return err;
	}
	memset(entry, 0, entry_size);
	memcpy(entry, &e, sizeof(e));
	return 0;
}

CLIENT_EXPORT ssize_t
_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags,
		     size_t entry_size)
{
	struct client_call c;
	size_t n = 0;
	int err;

	if (flags)
		return -EOPNOTSUPP;
	if (entry_size < sizeof(struct ibv_gid_entry))
		return -EINVAL;
	err = ask(context, CTL_GID_TABLE, &c);
	if (err)
		return -err;
	for (uint32_t i = 0; i < UROCE_MAX_GIDS; i++) {
		struct ibv_gid_entry e = {
			.gid_index = i,
			.port_num = 1,
			.gid_type = IBV_GID_TYPE_ROCE_V2,
			.ndev_ifindex = c.rsp.gid_table.ndev_ifindex,
		};

		if (gid_is_zero(gid_at(c.rsp.gid_table.gid[i])))
			continue;
		if (n == max_entries)
			return -EINVAL;
		memcpy(e.gid.raw, c.rsp.gid_table.gid[i], sizeof(e.gid.raw));
		memset((char *)entries + n * entry_size, 0, entry_size);
		memcpy((char *)entries + n * entry_size, &e, sizeof(e));
		n++;
	}
	return n;
}

/* Private to rdma-core, but used by ibv_devinfo and pyverbs. private.c exports it. */
int client_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

int
client_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	struct ibv_gid_entry e;
	int err = get_gid(context, port, index, &e);

	if (err && err != ENODATA)
		return client_fail(err);
	*type = err ? GID_SYSFS_ROCE_V1 : GID_SYSFS_ROCE_V2;
	return 0;
}

CLIENT_EXPORT int
ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	struct client_call c;
	int err = port == 1 && index >= 0 && index < UROCE_MAX_PKEYS ? ask(context, CTL_PORT_QUERY, &c) : EINVAL;

	if (!err && (uint32_t)index >= c.rsp.port_query.pkey_tbl_len)
		err = EINVAL;
	if (err)
		return client_fail(err);
	*pkey = htobe16(c.rsp.port_query.pkeys[index]);
	return 0;
}

CLIENT_EXPORT int
ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	__be16 found;

	for (int i = 0; i < UROCE_MAX_PKEYS; i++) {
		if (ibv_query_pkey(context, port, i, &found))
			return -1;
		if (found == pkey)
			return i;
	}
	return client_fail(ENOENT);
}

/* Part of the library's binary interface, but in no header. */
CLIENT_EXPORT const char *ibv_get_sysfs_path(void);
CLIENT_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

const char *
ibv_get_sysfs_path(void)
{
	return "/sys";
}

int
ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[IBV_SYSFS_PATH_MAX * 2];
	ssize_t n;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return client_fail(ENAMETOOLONG);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, size);
	close(fd);
	if (n <= 0)
		return -1;
	/* Without the newline, and terminated where there is room. */
	if (buf[n - 1] == '\n')
		buf[--n] = 0;
	else if ((size_t)n < size)
		buf[n] = 0;
	else
		return -1;
	return n;
}
