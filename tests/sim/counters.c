/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of the transports: what must always be so, and which must be zero, by what the seed lets go wrong. */
#include <inttypes.h>
#include <string.h>

#include "model.h"

struct must_be_zero {
	const char *name;
	size_t offset;
};
#define Z(name) { #name, offsetof(struct tp_counters, name) }

static void
check_zero(struct sim_world *w, const struct must_be_zero *z, size_t n)
{
	const struct sim_engine *e;
	uint64_t value;
	uint32_t ep;
	size_t i;

	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		for (e = w->eps[ep].engines; e < w->eps[ep].engines + w->eps[ep].nb_engines; e++) {
			for (i = 0; i < n; i++) {
				memcpy(&value, (const char *)transport_counters(e->tp) + z[i].offset, sizeof(value));
				if (value != 0)
					sim_fail(w, "endpoint %u: counter %s is %" PRIu64 ", must be 0", ep, z[i].name,
						 value);
			}
		}
	}
}

/*
 * Reordered or repeated, but all there: NAKs are enough to get on. But for one case: of the packets that are sent again
 * behind a gap one overtakes another again; a responder asks once for a gap (9.7.5.2.8).
 */
static void
check_few_timeouts(struct sim_world *w)
{
	enum { NAKS_PER_TIMEOUT = 4, TIMEOUTS_FREE = 2 };
	uint64_t naks = 0, timeouts = 0;
	uint32_t ep, i;

	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		for (i = 0; i < w->eps[ep].nb_engines; i++) {
			const struct tp_counters *c = transport_counters(w->eps[ep].engines[i].tp);

			naks += c->packet_seq_err + c->implied_nak_seq_err;
			timeouts += c->local_ack_timeout_err;
		}
	}
	if (timeouts > TIMEOUTS_FREE + naks / NAKS_PER_TIMEOUT)
		sim_fail(w, "%" PRIu64 " ACK timeouts, %" PRIu64 " NAKs, though nothing was lost", timeouts, naks);
}

/* Whatever happens: no counter goes back below zero, and what has been counted has been counted in its parts. */
static void
check_sums(struct sim_world *w)
{
#define TP_X(name) { #name, offsetof(struct tp_counters, name) },
	static const struct must_be_zero all[] = { TP_COUNTERS(TP_X) };
#undef TP_X
	uint64_t value;

	for (uint32_t ep = 0; ep < w->cfg.nb_eps; ep++) {
		for (uint32_t i = 0; i < w->eps[ep].nb_engines; i++) {
			const struct tp_counters *c = transport_counters(w->eps[ep].engines[i].tp);

			for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
				memcpy(&value, (const char *)c + all[k].offset, sizeof(value));
				if (value > INT64_MAX)
					sim_fail(w, "endpoint %u: counter %s is %" PRIi64, ep, all[k].name, (int64_t)value);
			}
			if (c->rx_cnp != c->rp_cnp_handled + c->rp_cnp_ignored)
				sim_fail(w, "endpoint %u: of %" PRIu64 " CNPs %" PRIu64 " were handled and %" PRIu64 " ignored", ep, c->rx_cnp,
					 c->rp_cnp_handled, c->rp_cnp_ignored);
			if (c->np_cnp_sent > c->np_ecn_marked_roce_packets)
				sim_fail(w, "endpoint %u: %" PRIu64 " CNPs were sent for %" PRIu64 " marked packets", ep, c->np_cnp_sent,
					 c->np_ecn_marked_roce_packets);
		}
	}
}

#define CHECK_ZERO(w, z) check_zero(w, z, sizeof(z) / sizeof((z)[0]))

static bool
some_without_probes(const struct sim_world *w)
{
	for (uint32_t i = 0; i < w->cfg.nb_eps; i++)
		if (!w->cfg.features[i].tail_loss_probe)
			return true;
	return false;
}

void
check_counters(struct sim_world *w)
{
	static const struct must_be_zero always[] = {
		Z(rx_multi_segment), Z(cq_events_delayed), Z(rx_ud_length), Z(resp_rd_atomic_exceeded),
	};
	/* Of a datagram to a group further members may need copies. */
	static const struct must_be_zero copied[] = { Z(rx_handoff_dropped), Z(mcast_loop_dropped) };
	static const struct must_be_zero no_groups[] = { Z(rx_mcast), Z(rx_mcast_no_group) };
	/* MigReq of before the peer was ready may come late. */
	static const struct must_be_zero migreq[] = { Z(rx_bad_migreq) };
	static const struct must_be_zero polled[] = { Z(cq_overrun) };
	static const struct must_be_zero reliable[] = { Z(rx_ud_no_wqe), Z(rx_uc_no_wqe), Z(rx_uc_gap), Z(rx_uc_rest),
							Z(rx_bad_qkey) };
	static const struct must_be_zero right_qkey[] = { Z(rx_bad_qkey) };
	static const struct must_be_zero one_engine[] = { Z(rx_handoff) };
	static const struct must_be_zero enough[] = { Z(tx_no_mbuf) };
	static const struct must_be_zero undamaged[] = {
		Z(rx_not_roce), Z(rx_truncated), Z(rx_bad_ip), Z(rx_bad_udp_sum), Z(rx_bad_opcode), Z(rx_bad_tver),
		Z(rx_bad_length), Z(rx_icrc_encapsulated), Z(rx_wrong_service), Z(rx_bad_response), Z(rx_mad_length),
	};
	static const struct must_be_zero one_partition[] = { Z(rx_bad_pkey) };
	static const struct must_be_zero same_mtu[] = { Z(tx_too_long) };
	static const struct must_be_zero nothing_lost[] = { Z(local_ack_timeout_err), Z(retry_exceeded_err) };
	static const struct must_be_zero same_peer[] = { Z(rx_bad_address) };
	static const struct must_be_zero in_order[] = {
		Z(packet_seq_err), Z(implied_nak_seq_err), Z(rx_ghost_ack), Z(sack_offers_sent), Z(sacks_sent), Z(rx_held),
	};
	/* What early retransmissions raise. */
	static const struct must_be_zero once[] = { Z(duplicate_request) };
	static const struct must_be_zero alive[] = {
		/* Behind an RNR NAK that an error has kept from being sent, packets are out of sequence too. */
		Z(out_of_sequence), Z(local_ack_timeout_err), Z(retry_exceeded_err),
		Z(req_cqe_error),   Z(resp_cqe_error),
		/* A QP has its answers long before it has to move without them. */
		Z(qps_undrained),
	};
	/* What was sent again early may come when all is over. */
	static const struct must_be_zero alive_once[] = { Z(retransmitted_packets) };
	/* As may what was made up to arrive at another port, what another queue has overtaken, and a foreign end's ACK of what it has answered. */
	static const struct must_be_zero in_time[] = { Z(rx_unknown_qp), Z(rx_wrong_state) };
	bool rnr = false, probes = false;
	uint32_t ep, i;

	check_sums(w);
	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		for (i = 0; i < w->eps[ep].nb_engines; i++) {
			rnr |= transport_counters(w->eps[ep].engines[i].tp)->rnr_nak_sent != 0 ||
			       transport_counters(w->eps[ep].engines[i].tp)->rnr_nak_received != 0;
			probes |= transport_counters(w->eps[ep].engines[i].tp)->tail_loss_probes != 0;
		}
	}
	if (w->hostile)
		return;
	tally_check(w);
	CHECK_ZERO(w, always);
	/* Packets are held, and dropped if there are too many of them. */
	if (w->copies)
		return;
	if ((!(w->cfg.faults & SIM_F_NO_MBUF) && w->cfg.limits.tx_packets == 0) || w->nb_groups == 0)
		CHECK_ZERO(w, copied);
	if (w->nb_groups == 0 && !(w->cfg.faults & SIM_F_CORRUPT))
		CHECK_ZERO(w, no_groups);
	if (!(w->cfg.faults & SIM_F_REORDER))
		CHECK_ZERO(w, migreq);
	if (!(w->cfg.faults & SIM_F_CQ_SMALL))
		CHECK_ZERO(w, polled);
	if (!(w->cfg.faults & SIM_F_UNRELIABLE))
		CHECK_ZERO(w, reliable);
	if (!(w->cfg.faults & SIM_F_PLANT_REMOTE) && w->nb_groups == 0)
		CHECK_ZERO(w, right_qkey);
	if (!(w->cfg.faults & SIM_F_PARTITION))
		CHECK_ZERO(w, same_mtu);
	if (!(w->cfg.faults & SIM_F_ENGINES))
		CHECK_ZERO(w, one_engine);
	if (!(w->cfg.faults & SIM_F_NO_MBUF))
		CHECK_ZERO(w, enough);
	if (!(w->cfg.faults & SIM_F_CORRUPT))
		CHECK_ZERO(w, undamaged);
	if (!(w->cfg.faults & (SIM_F_CORRUPT | SIM_F_PKEYS)))
		CHECK_ZERO(w, one_partition);
	/* Of the path before, or at another port. */
	if (!(w->cfg.faults & (SIM_F_CORRUPT | SIM_F_RECONNECT | SIM_F_APM | SIM_F_PORTS)))
		CHECK_ZERO(w, same_peer);
	/* The NAK to a request of a former connection takes the place of an ACK, and may name what was never sent. */
	if (!(w->cfg.faults & (SIM_F_LOSE | SIM_F_ENDS | SIM_F_STALL | SIM_F_NO_MBUF | SIM_F_SLOW_TX | SIM_F_STALE)) &&
	    !w->cfg.harsh) {
		/*
		 * A request that overtakes one that is sent again after an RNR NAK is dropped, and nobody asks for it: what is behind an
		 * RNR NAK comes again anyway. Only a probe finds that out before the ACK timeout does.
		 */
		if ((w->cfg.faults & SIM_F_REORDER) && (!w->cfg.reorder_once || (rnr && some_without_probes(w))))
			check_few_timeouts(w);
		else
			CHECK_ZERO(w, nothing_lost);
	}
	/* Packets that are late, or of the connection before, look lost. */
	if ((w->cfg.faults & (SIM_F_LINK | SIM_F_STALL | SIM_F_NO_MBUF | SIM_F_SLOW_TX)) || rnr || w->cfg.harsh)
		return;
	if (invalidate_may_wait(w))
		return;
	CHECK_ZERO(w, in_order);
	/* Requests of a connection that has failed may come to the next one: their PSNs lie behind. */
	if (!probes && !((w->cfg.faults & SIM_F_RECONNECT) && (w->cfg.faults & SIM_F_ENDS)))
		CHECK_ZERO(w, once);
	if (w->cfg.faults & SIM_F_ENDS)
		return;
	CHECK_ZERO(w, alive);
	if (!probes)
		CHECK_ZERO(w, alive_once);
	if (!probes && (w->cfg.faults & (SIM_F_PORTS | SIM_F_FOREIGN)) == 0 && ((w->cfg.faults & SIM_F_MOVES) == 0 || w->late_all))
		CHECK_ZERO(w, in_time);
}
