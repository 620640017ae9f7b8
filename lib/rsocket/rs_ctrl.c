/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages of a stream: grants, keepalives, disconnect and shutdown. */
#include <arpa/inet.h>

#include "rsocket/rs_priv.h"

bool
rs_ctrl_room(const struct rs_stream *s)
{
	return s->ctrl.posted - s->ctrl.done < RS_CTRL_WRS;
}

int
rs_ctrl_post(struct rs_stream *s, uint32_t msg, struct ibv_sge *sge, uint64_t addr)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = RS_WR_CTRL,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | (sge ? IBV_SEND_INLINE : 0),
		.imm_data = htonl(msg),
	};
	int err;

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = sge ? s->peer.list.key : 0;
	err = ibv_post_send(s->id->qp, &wr, &bad);
	if (!err)
		s->ctrl.posted++;
	return err;
}

void
rs_grant(struct rs_stream *s)
{
	struct rs_sge chunk;
	struct ibv_sge sge = { (uintptr_t)&chunk, sizeof(chunk), 0 };
	int64_t half;
	uint32_t seq;
	int err;

	while (rs_state(&s->rs) == RS_CONNECTED && rs_ctrl_room(s) && rs_rx_grant_due(&s->rx)) {
		seq = rs_rx_grant(&s->rx, &half);
		if (half < 0) {
			err = rs_ctrl_post(s, rs_msg(RS_OP_SGL, seq), NULL, 0);
		} else {
			chunk = (struct rs_sge){ (uintptr_t)s->recv_buf + (uint64_t)half, s->recv_mr->rkey,
						  s->rx.ring_bytes / 2 };
			chunk = rs_sge_for(&chunk, s->peer.swap);
			err = rs_ctrl_post(s, rs_msg(RS_OP_SGL, seq), &sge,
					s->peer.list.addr + s->peer_list_at * sizeof(struct rs_sge));
			s->peer_list_at = (s->peer_list_at + 1) % s->peer.list.length;
		}
		if (err)
			rs_fail(s, EIO);
	}
}

void
rs_ctrl_keepalive(struct rs_stream *s)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = RS_WR_CTRL,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	pthread_mutex_lock(&s->rs.lock);
	if (rs_state(&s->rs) == RS_CONNECTED && rs_ctrl_room(s) && !ibv_post_send(s->id->qp, &wr, &bad))
		s->ctrl.posted++;
	pthread_mutex_unlock(&s->rs.lock);
}
