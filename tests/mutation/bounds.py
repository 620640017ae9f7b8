#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The bounds of all pools, rings and arrays of lib/transport, lib/mem, lib/ring and lib/cm, and each of them one too far. A text that is not
there exactly once is an error: the list follows the source. Run as a program, this checks
it; tests/mutation/run --bounds runs the tests with each.
"""
import pathlib
import sys

LIB = pathlib.Path(__file__).resolve().parents[2] / 'lib'

# What has the bound: (file below lib/, text, what to write in its place)
BOUNDS = {
    'pkts[TP_TX_MAX] of a TX vector': ('transport/core/tx_priv.h', 'o->vec->n >= tp->c.limits.tx_packets', 'o->vec->n > tp->c.limits.tx_packets'),
    'pkts[TP_TX_MAX] of copies to a multicast group': ('transport/core/mcast.c', 'tp->loop.n < tp->c.limits.tx_packets ?', 'tp->loop.n <= tp->c.limits.tx_packets ?'),
    'mbufs[TP_MBUF_CACHE], given back': ('transport/core/tx_priv.h', 'tp->nb_mbufs < TP_MBUF_CACHE', 'tp->nb_mbufs <= TP_MBUF_CACHE'),
    'mbufs[TP_MBUF_CACHE], refilled': ('transport/core/tx.c', 'tp->mbufs, TP_MBUF_CACHE) == 0', 'tp->mbufs, TP_MBUF_CACHE + 1) == 0'),
    'touched[TP_TOUCHED_CQS]': ('transport/core/cq.c', 'tp->nb_touched >= tp->c.limits.touched_cqs', 'tp->nb_touched > tp->c.limits.touched_cqs'),
    'deferred[TP_DEFERRED_CQS]': ('transport/core/cq.c', 'tp->nb_deferred >= tp->c.limits.deferred_cqs', 'tp->nb_deferred > tp->c.limits.deferred_cqs'),
    'slots of a CQ': ('transport/core/cq.c', 'return *n - cons < size;', 'return *n - cons <= size;'),
    'slots of a CQ, by what was polled before': ('transport/core/cq.c', '&cq->cons, memory_order_acquire) < size', '&cq->cons, memory_order_acquire) <= size'),
    'events[TP_EVENTS], written': ('transport/core/event_log.c', 'd->next++ % TP_EVENTS', 'd->next++ % (TP_EVENTS + 1)'),
    'events[TP_EVENTS], read': ('transport/core/event_log.c', 'i <= TP_EVENTS && n < max', 'i <= TP_EVENTS + 1 && n < max'),
    'the reader\'s events': ('transport/core/event_log.c', 'i <= TP_EVENTS && n < max', 'i <= TP_EVENTS && n <= max'),
    'UROCE_MAX_MCAST_ATTACH': ('transport/core/mcast.c', 'old->members == UROCE_MAX_MCAST_ATTACH', 'old->members == UROCE_MAX_MCAST_ATTACH + 1'),
    'UROCE_MAX_MCAST_GROUPS': ('transport/core/mcast.c', 't->groups == UROCE_MAX_MCAST_GROUPS', 't->groups == UROCE_MAX_MCAST_GROUPS + 1'),
    'places of a group, searched': ('transport/core/mcast.c', 'g != NULL && i < g->places', 'g != NULL && i <= g->places'),
    'places of a group, copied': ('transport/core/mcast.c', 'i < old->places', 'i <= old->places'),
    'places of a group, served': ('transport/core/mcast.c', '(uint32_t i = 0; i < g->places; i++)', '(uint32_t i = 0; i <= g->places; i++)'),
    'buckets[MCAST_BUCKETS]': ('transport/core/mcast.c', 'h >> (32 - MCAST_BUCKET_BITS)', 'h >> (31 - MCAST_BUCKET_BITS)'),
    'of[TIME_WAIT_MAX], written': ('transport/core/time_wait.c', 'slot = qp->qpn & (TIME_WAIT_MAX - 1)', 'slot = qp->qpn & (2 * TIME_WAIT_MAX - 1)'),
    'of[TIME_WAIT_MAX], read': ('transport/core/time_wait.c', 'slot = p->bth.dqpn & (TIME_WAIT_MAX - 1)', 'slot = p->bth.dqpn & (2 * TIME_WAIT_MAX - 1)'),
    'TIME_WAIT_PSNS': ('transport/core/time_wait.c', 'behind <= TIME_WAIT_PSNS', 'behind <= TIME_WAIT_PSNS + 1'),
    'held[TP_SACK_SPAN] of a reorder buffer': ('transport/core/reorder.c', 'qp->rcv.epsn) >= tp->c.limits.reorder_span', 'qp->rcv.epsn) > tp->c.limits.reorder_span'),
    'the map of a reorder buffer': ('transport/core/reorder_priv.h', 'qp->rcv.epsn) < TP_SACK_SPAN', 'qp->rcv.epsn) <= TP_SACK_SPAN'),
    'reordered packets left for others': ('transport/core/reorder.c', '(r != NULL ? r->nb : 0) >= pool_left', '(r != NULL ? r->nb : 0) > pool_left'),
    'the pool of reordered packets': ('transport/pools.c', 'sizeof(struct tp_reorder_pkt), n->reorder_pkts)', 'sizeof(struct tp_reorder_pkt), n->reorder_pkts + 1)'),
    'the pool of reorder buffers': ('transport/pools.c', 'sizeof(struct tp_reorder), n->reorders)', 'sizeof(struct tp_reorder), n->reorders + 1)'),
    'the pool of scoreboards': ('transport/pools.c', 'sizeof(struct tp_scoreboard), n->scoreboards)', 'sizeof(struct tp_scoreboard), n->scoreboards + 1)'),
    'the pool of SGE blocks': ('transport/pools.c', 'sizeof(struct ring_sge), n->sge_blocks)', 'sizeof(struct ring_sge), n->sge_blocks + 1)'),
    'the pool of READ blocks': ('transport/pools.c', 'sizeof(struct tp_read), n->read_blocks)', 'sizeof(struct tp_read), n->read_blocks + 1)'),
    'the pool of blocks for WQEs in flight': ('transport/pools.c', 'sizeof(struct tp_swqe), n->inflight_blocks)', 'sizeof(struct tp_swqe), n->inflight_blocks + 1)'),
    'bits of a SACK': ('transport/req/sack.c', 'i < TP_SACK_SPAN && (s->bits', 'i <= TP_SACK_SPAN && (s->bits'),
    'WQEs in flight': ('transport/req/send_queue.c', 'qp->req.sq_tail > qp->req.inflight_mask)', 'qp->req.sq_tail > qp->req.inflight_mask + 1)'),
    'an item of a block for WQEs in flight': ('transport/req/send_queue.c', 'qp->req.inflight_mask = TP_INFLIGHT_MAX - 1', 'qp->req.inflight_mask = 2 * TP_INFLIGHT_MAX - 1'),
    'own_inflight[TP_INFLIGHT_OWN]': ('transport/req/send_queue.c', 'qp->req.inflight_mask = TP_INFLIGHT_OWN - 1', 'qp->req.inflight_mask = 2 * TP_INFLIGHT_OWN - 1'),
    'inline bytes of a WQE': ('transport/req/send_queue.c', 'count > qp->req.max_inline)', 'count > qp->req.max_inline + 1)'),
    'SGEs of a send': ('transport/req/send_queue.c', 'count > qp->req.max_send_sge)', 'count > qp->req.max_send_sge + 1)'),
    'SGEs of a send, gathered': ('transport/req/sge.c', '\t\tif (unlikely(i == w->nb_sge))\n\t\t\treturn wqe_error(', '\t\tif (unlikely(i == w->nb_sge + 1))\n\t\t\treturn wqe_error('),
    'SGEs of a READ, scattered': ('transport/req/sge.c', '\t\tif (unlikely(i == w->nb_sge))\n\t\t\treturn TP_VERR', '\t\tif (unlikely(i == w->nb_sge + 1))\n\t\t\treturn TP_VERR'),
    'SGEs of a send, lent': ('transport/req/sge.c', 'i < w->nb_sge; i++) {\n\t\tstruct ring_sge s = wqe_get_sge(&sge[i]);\n\n\t\tif (off', 'i <= w->nb_sge; i++) {\n\t\tstruct ring_sge s = wqe_get_sge(&sge[i]);\n\n\t\tif (off'),
    'the region of which a READ is fetched': ('transport/resp/reply.c', 'mr->length - (va - mr->iova)', 'mr->length + 1 - (va - mr->iova)'),
    'room of a receive': ('transport/resp/recv.c', 'len > w->room', 'len > w->room + 1'),
    'SGEs of a receive': ('transport/resp/recv.c', 'w->sge_cur == w->nb_sge)', 'w->sge_cur == w->nb_sge + 1)'),
    'the longest message sent': ('transport/req/send_queue.c', '\t\tif (length > UROCE_MAX_MSG_BYTES)', '\t\tif (length > UROCE_MAX_MSG_BYTES + UINT64_C(1))'),
    'cwnd at most, grown by SACKs': ('transport/cc/cwnd.c', 'qp->loss.not_in_flight, TP_CWND_MAX)', 'qp->loss.not_in_flight, TP_CWND_MAX + 1)'),
    'cwnd at most, grown by ACKs': ('transport/cc/cwnd.c', 'TP_CWND_STEP, (int)TP_CWND_MAX)', 'TP_CWND_STEP, (int)TP_CWND_MAX + 1)'),
    'cwnd at most, by Swift': ('transport/cc/swift.c', 'SWIFT_MIN_CWND, TP_CWND_MAX)', 'SWIFT_MIN_CWND, TP_CWND_MAX + 1)'),
    'results of READs and atomics': ('transport/resp/read_atomic.c', 'qp->resp.res_head = qp->resp.res_head + 1 == qp->resp.res_max ?', 'qp->resp.res_head = qp->resp.res_head == qp->resp.res_max ?'),
    'UROCE_MAX_SGE of a send': ('transport/qp.c', 'p->cap.max_send_sge > UROCE_MAX_SGE', 'p->cap.max_send_sge > UROCE_MAX_SGE + 1'),
    'UROCE_MAX_SGE of a receive': ('transport/qp.c', 'p->cap.max_recv_sge > UROCE_MAX_SGE', 'p->cap.max_recv_sge > UROCE_MAX_SGE + 1'),
    'UROCE_MAX_INLINE': ('transport/qp.c', 'p->cap.max_inline_data > UROCE_MAX_INLINE', 'p->cap.max_inline_data > UROCE_MAX_INLINE + 1'),
    'stride of an SQ': ('transport/qp.c', 'UINT32_C(1) << p->sq.shift < stride', 'UINT32_C(2) << p->sq.shift < stride'),
    'stride of an RQ': ('transport/qp.c', 'UINT32_C(1) << p->rq.shift < ring_rq_stride', 'UINT32_C(2) << p->rq.shift < ring_rq_stride'),
    'ports of a QP': ('transport/qp.c', 'p->port >= tp->c.nb_ports', 'p->port > tp->c.nb_ports'),
    'ports of a path': ('transport/qp.c', 'path->port >= tp->c.nb_ports', 'path->port > tp->c.nb_ports'),
    'touched[UROCE_MAX_ENGINES]': ('transport/transport.c', 'c->engine >= UROCE_MAX_ENGINES', 'c->engine > UROCE_MAX_ENGINES'),
    'ports[UROCE_MAX_PORTS]': ('transport/transport.c', 'c->nb_ports > UROCE_MAX_PORTS', 'c->nb_ports > UROCE_MAX_PORTS + 1'),
    'slots[TP_RX_BATCH]': ('transport/transport.c', 'RTE_MIN(n - done, tp->c.limits.rx_batch)', 'RTE_MIN(n - done, tp->c.limits.rx_batch + 1)'),
    'the rest of a frame in several mbufs': ('transport/transport.c', 'rest > rte_pktmbuf_tailroom(m)', 'rest > rte_pktmbuf_tailroom(m) + 1u'),
    'pkeys[UROCE_MAX_PKEYS]': ('transport/core/qp_state.c', 'a->pkey_index < UROCE_MAX_PKEYS', 'a->pkey_index <= UROCE_MAX_PKEYS'),
    'pkeys[UROCE_MAX_PKEYS] of an alternate path': ('transport/core/qp_state.c', 'a->alt_pkey_index >= UROCE_MAX_PKEYS', 'a->alt_pkey_index > UROCE_MAX_PKEYS'),
    'pkeys[UROCE_MAX_PKEYS], searched for a MAD': ('transport/svc/gsi.c', 'i < UROCE_MAX_PKEYS', 'i <= UROCE_MAX_PKEYS'),
    'max_rd_atomic': ('transport/core/qp_state.c', 'a->max_rd_atomic <= UROCE_MAX_RD_ATOMIC', 'a->max_rd_atomic <= UROCE_MAX_RD_ATOMIC + 1'),
    'reads[UROCE_MAX_RD_ATOMIC]': ('transport/core/qp_state.c', 'a->max_dest_rd_atomic <= UROCE_MAX_RD_ATOMIC', 'a->max_dest_rd_atomic <= UROCE_MAX_RD_ATOMIC + 1'),
    'states of a QP': ('transport/core/qp_state.c', 'next >= UROCE_QPS_STATES', 'next > UROCE_QPS_STATES'),
    'READs that a requester has outstanding': ('transport/req/requester.c', 'qp->req.rd_out >= qp->req.max_rd', 'qp->req.rd_out > qp->req.max_rd'),
    'UROCE_MAX_QP': ('transport/core/qp_table.c', 'max_qp > UROCE_MAX_QP', 'max_qp > UROCE_MAX_QP + 1'),
    'UROCE_MAX_AH': ('transport/core/ah.c', 'max_ah > UROCE_MAX_AH', 'max_ah > UROCE_MAX_AH + 1'),
    'xrc_srqs[TP_XRC_BUCKETS]': ('transport/core/srq_priv.h', 'srqn & (TP_XRC_BUCKETS - 1)', 'srqn & (2 * TP_XRC_BUCKETS - 1)'),
    'data[TP_MAD_BYTES]': ('transport/svc/gsi.c', 'p->payload_bytes != TP_MAD_BYTES', 'p->payload_bytes < TP_MAD_BYTES'),
    'the reserve of a share': ('transport/core/share_priv.h', 'bool own = s->held[id] < tp->reserve[id].each', 'bool own = s->held[id] <= tp->reserve[id].each'),
    'what a share may take beyond it': ('transport/core/share_priv.h', '(int64_t)s->held[id] < (int64_t)pool_left(pool)', '(int64_t)s->held[id] <= (int64_t)pool_left(pool)'),
    'data[TP_COPY_BYTES] of a copy of packets': ('transport/core/copy.c', 'len > TP_COPY_BYTES - m->length', 'len > TP_COPY_BYTES - m->length + 1'),
    'parts[TP_COPY_PARTS_OF_JOB] of a copy of packets': ('transport/core/copy.c', 'job->nb_parts == RTE_DIM(job->parts)', 'job->nb_parts == RTE_DIM(job->parts) + 1'),
    'pieces[MEM_JOB_PIECES] of a copy of packets': ('transport/core/copy.c', 'm->nb_pieces == RTE_DIM(m->pieces)', 'm->nb_pieces == RTE_DIM(m->pieces) + 1'),
    'data[TP_COPY_BYTES] of a fetch': ('transport/core/copy_fetch.c', 'RTE_MIN(len, TP_COPY_BYTES - m->length)', 'RTE_MIN(len, TP_COPY_BYTES - m->length + 1)'),
    'UROCE_MAX_MR': ('mem/mr.c', 'max_mr > UROCE_MAX_MR', 'max_mr > UROCE_MAX_MR + 1'),
    'UROCE_MAX_MR_SEGS': ('mem/mr.c', 'p->nb_segs > UROCE_MAX_MR_SEGS', 'p->nb_segs > UROCE_MAX_MR_SEGS + 1'),
    'segments of an MR': ('mem/mr.c', 'i < p->nb_segs', 'i <= p->nb_segs'),
    'segments of an MR, searched': ('mem/copy.c', 'hi = mr->nb_segs - 1;', 'hi = mr->nb_segs;'),
    'segments within the region': ('mem/mr.c', 's->length > p->length - (next - p->addr)', 's->length > p->length - (next - p->addr) + 1'),
    'offset in an MR': ('mem/mem.h', 'off > mr->length', 'off > mr->length + 1'),
    'end of an access to an MR': ('mem/mem.h', 'len > mr->length - off', 'len > mr->length - off + 1'),
    'small copies': ('mem/mem.h', 'len > MEM_COPY_INLINE_BYTES', 'len > MEM_COPY_INLINE_BYTES + 1'),
    'slots of a ring': ('ring/ring.h', '((1u << r->order) - 1)', '((2u << r->order) - 1)'),
    'stride of an SQ slot for SGEs': ('ring/wqe.h', 'max_sge * sizeof(struct ring_sge);\n\tuint32_t stride = 64', '(max_sge - 1) * sizeof(struct ring_sge);\n\tuint32_t stride = 64'),
    'stride of an SQ slot for inline bytes': ('ring/wqe.h', 'need = max_inline + sizeof(struct ring_sq_wqe);', 'need = max_inline + sizeof(struct ring_sq_wqe) - 1;'),
    'stride of an RQ slot': ('ring/wqe.h', 'max_sge * sizeof(struct ring_sge);\n\tuint32_t stride = 32', '(max_sge - 1) * sizeof(struct ring_sge);\n\tuint32_t stride = 32'),
    'opcodes of work requests': ('transport/req/send_queue.c', 'w->opcode >= UROCE_WR_OPS', 'w->opcode > UROCE_WR_OPS'),
    'doorbells': ('ring/ring.h', '&db->low[slot >> 6]', '&db->low[slot >> 5]'),
    'max_conns': ('cm/cm.c', 'config->max_conns > CM_MAX_CONNS_LIMIT', 'config->max_conns > CM_MAX_CONNS_LIMIT + 1'),
    'max_listeners': ('cm/listen.c', 'cm->nb_listeners >= cm->cfg.max_listeners', 'cm->nb_listeners > cm->cfg.max_listeners'),
    'backlog': ('cm/listen.c', 'l->nb_pending >= l->backlog', 'l->nb_pending > l->backlog'),
    'CM_MAX_BACKLOG': ('cm/listen.c', 'p->backlog > CM_MAX_BACKLOG', 'p->backlog > CM_MAX_BACKLOG + 1'),
    'max_half_open': ('cm/listen.c', 'cm->nb_half_open >= cm->cfg.max_half_open', 'cm->nb_half_open > cm->cfg.max_half_open'),
    'max_per_peer': ('cm/table.c', 'p->conns >= cm->cfg.max_per_peer', 'p->conns > cm->cfg.max_per_peer'),
    'max_kept': ('cm/conn.c', '++cm->nb_kept > cm->cfg.max_kept', '++cm->nb_kept > cm->cfg.max_kept + 1'),
    'buckets of the table': ('cm/table.c', 'cm->table.mask = buckets - 1;', 'cm->table.mask = 2 * buckets - 1;'),
    'ari[CM_ARI_BYTES] of a REJ received': ('cm/mad.c', 'm->rej.ari_bytes <= CM_ARI_BYTES', 'm->rej.ari_bytes <= CM_ARI_BYTES + 1'),
    'info[CM_ARI_BYTES] of an APR received': ('cm/mad.c', 'm->apr.info_bytes <= CM_ARI_BYTES', 'm->apr.info_bytes <= CM_ARI_BYTES + 1'),
    'info[CM_ARI_BYTES] of a SIDR REP received': ('cm/mad.c', 'm->sidr_rep.info_bytes <= CM_ARI_BYTES', 'm->sidr_rep.info_bytes <= CM_ARI_BYTES + 1'),
    'a received MAD': ('cm/mad.c', 'len != CM_MAD_BYTES', 'len < CM_MAD_BYTES - 1'),
    'rej_reasons[]': ('cm/mad.c', 'reason < sizeof(rej_reasons)', 'reason <= sizeof(rej_reasons)'),
    'the header of the RDMA CM': ('cm/mad.c', 'len_bytes < CM_IP_HDR_BYTES', 'len_bytes < CM_IP_HDR_BYTES - 1'),
    'private data of a REQ': ('cm/active.c', '&p->private_data, CM_REQ_PRIVATE_BYTES)', '&p->private_data, CM_REQ_PRIVATE_BYTES + 1)'),
    'private data of an RTU': ('cm/active.c', 'CM_RTU_PRIVATE_BYTES)', 'CM_RTU_PRIVATE_BYTES + 1)'),
    'private data of a REP': ('cm/passive.c', 'CM_REP_PRIVATE_BYTES)', 'CM_REP_PRIVATE_BYTES + 1)'),
    'private data of a DREQ': ('cm/disconnect.c', 'CM_DREQ_PRIVATE_BYTES)', 'CM_DREQ_PRIVATE_BYTES + 1)'),
    'private data of a DREP': ('cm/disconnect.c', 'CM_DREP_PRIVATE_BYTES)', 'CM_DREP_PRIVATE_BYTES + 1)'),
    'info of an APR': ('cm/lap.c', '&info, CM_ARI_BYTES)', '&info, CM_ARI_BYTES + 1)'),
    'private data of an APR': ('cm/lap.c', '&private_data, CM_APR_PRIVATE_BYTES)', '&private_data, CM_APR_PRIVATE_BYTES + 1)'),
    'private data of an MRA': ('cm/mra.c', 'CM_MRA_PRIVATE_BYTES)', 'CM_MRA_PRIVATE_BYTES + 1)'),
    'ARI of a REJ': ('cm/reject.c', '&ari, CM_ARI_BYTES)', '&ari, CM_ARI_BYTES + 1)'),
    'private data of a REJ': ('cm/reject.c', '&private_data, CM_REJ_PRIVATE_BYTES)', '&private_data, CM_REJ_PRIVATE_BYTES + 1)'),
    'GUID in a REJ': ('cm/reject.c', 'rej->ari_bytes < GUID_BYTES', 'rej->ari_bytes < GUID_BYTES - 1'),
    'private data of a SIDR REQ': ('cm/sidr.c', '&p->private_data, CM_SIDR_REQ_PRIVATE_BYTES)', '&p->private_data, CM_SIDR_REQ_PRIVATE_BYTES + 1)'),
    'info of a SIDR REP': ('cm/sidr.c', '&p->info, CM_ARI_BYTES)', '&p->info, CM_ARI_BYTES + 1)'),
    'private data of a SIDR REP': ('cm/sidr.c', '&p->private_data, CM_SIDR_REP_PRIVATE_BYTES)', '&p->private_data, CM_SIDR_REP_PRIVATE_BYTES + 1)'),
}


def main():
    wrong = 0
    for name, (file, old, new) in BOUNDS.items():
        found = (LIB / file).read_text().count(old)
        if found != 1 or old == new:
            print(f'{name}: in {file} this text must be once, is there {found} times: {old}')
            wrong += 1
    return wrong != 0


if __name__ == '__main__':
    sys.exit(main())
