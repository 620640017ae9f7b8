/* SPDX-License-Identifier: BSD-3-Clause */
/* What other threads see of sessions and their objects while the daemon runs */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/session_priv.h"
#include "daemon.h"
#include "control/observe/inspect.h"

enum { CQ_ENTRIES = 64, MR_BYTES = 1 << 20, REGIONS = 50 };

/** Register MR_BYTES of converted memory. */
static int
mr_reg(struct peer *p, uint32_t pd, struct ctl_rsp *r)
{
	uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_seg *seg = (void *)(buf + CTL_REQ_BYTES);
	uint64_t addr = UINT64_C(1) << 30;
	struct ctl_req *q = (void *)buf;

	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .addr = addr, .iova = addr, .length = MR_BYTES, .nb_segs = 1, .nb_in_msg = 1,
					     .access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_READ };
	*seg = (struct ctl_seg){ .va = addr, .length = MR_BYTES, .kind = CTL_SEG_CONVERTED, .offset = 1 << 20 };
	assert_int_equal(peer_send(p->sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(p->sock, r, NULL, 0));
	return r->status;
}

/** To INIT, then begin RTR towards an address that nobody has: the answer comes when ARP has been given up. */
static void
start_connecting(struct peer *p, uint32_t handle)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct ctl_rsp r;

	q.qp_modify.handle = handle;
	q.qp_modify.mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS;
	q.qp_modify.attr = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_INIT, .port_num = 1 };
	assert_int_equal(peer_ask(p, &q, &r), 0);
	q.qp_modify.mask = UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
			   UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
	q.qp_modify.attr = (struct uroce_qp_attr){
		.qp_state = UROCE_QPS_RTR, .path_mtu = UROCE_MTU_1024, .dest_qp_num = 17,
		.ah = { .dgid = { [10] = 0xff, 0xff, 198, 18, 0, 77 }, .sgid_index = 1, .hop_limit = 64, .is_global = 1,
			.port_num = 1 },
	};
	assert_int_equal(peer_send(p->sock, &q, sizeof(q), NULL, 0), 0);
}

static void
expect_part(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' isn't in '%s'", part, text);
}

static void
what_a_program_has_can_be_seen(void **state)
{
	struct inspect_filter f = INSPECT_ALL;
	struct ctl_rsp cq, qp, mr;
	struct inspect_session s;
	struct inspect_qp qps[4], one;
	struct inspect_cq seen_cq;
	struct inspect_mr seen_mr;
	uint64_t numbers[4];
	struct peer p;
	uint32_t pd;

	peer_open(&p);
	pd = peer_pd(p.sock);
	assert_int_equal(peer_ask_cq(&p, CQ_ENTRIES, &cq), 0);
	assert_int_equal(peer_ask_qp(&p, pd, cq.cq_create.handle, &qp), 0);
	assert_int_equal(mr_reg(&p, pd, &mr), 0);

	assert_int_equal(inspect_list(daemon_control(), INSPECT_SESSION, &f, numbers, 4), 1);
	assert_int_equal(inspect_session(daemon_control(), numbers[0], &s), 0);
	assert_string_equal(s.program, "test");
	assert_string_equal(s.device, "uroce0");
	assert_int_equal(s.pid, getpid());
	assert_int_equal(s.uid, getuid());
	assert_int_equal(s.qps, 1);
	assert_int_equal(s.mrs, 1);
	assert_int_equal(s.registered_bytes, MR_BYTES);
	assert_true(s.ring_bytes > 0);

	assert_int_equal(inspect_list(daemon_control(), INSPECT_QP, &f, numbers, 4), 1);
	assert_int_equal(numbers[0], qp.qp_create.qpn);
	assert_int_equal(inspect_qp(daemon_control(), qp.qp_create.qpn, &one), 0);
	assert_int_equal(one.v.state, UROCE_QPS_RESET);
	assert_int_equal(one.v.tx.depth, 16);
	assert_int_equal(one.v.rx.depth, 32);
	assert_int_equal(one.session, s.number);
	f.state = UROCE_QPS_RTS;
	assert_int_equal(inspect_qps(daemon_control(), &f, qps, 4), 0);
	f.state = UROCE_QPS_RESET;
	assert_int_equal(inspect_qps(daemon_control(), &f, qps, 4), 1);
	assert_int_equal(qps[0].v.qpn, qp.qp_create.qpn);
	f.session = s.number + 1;
	assert_int_equal(inspect_qps(daemon_control(), &f, qps, 4), 0);

	f = INSPECT_ALL;
	assert_int_equal(inspect_list(daemon_control(), INSPECT_CQ, &f, numbers, 4), 1);
	assert_int_equal(numbers[0], one.send_cq);
	assert_int_equal(inspect_cq(daemon_control(), numbers[0], &seen_cq), 0);
	assert_int_equal(seen_cq.v.size, CQ_ENTRIES);
	assert_int_equal(seen_cq.v.users, 2);
	assert_int_equal(seen_cq.v.unpolled, 0);

	assert_int_equal(inspect_list(daemon_control(), INSPECT_MR, &f, numbers, 4), 1);
	assert_int_equal(inspect_mr(daemon_control(), (uint32_t)numbers[0], &seen_mr), 0);
	assert_int_equal(seen_mr.key, mr.mr_reg.lkey);
	assert_int_equal(seen_mr.length, MR_BYTES);
	assert_int_equal(seen_mr.mapped_bytes, MR_BYTES);
	f.from = numbers[0] + 1;
	assert_int_equal(inspect_list(daemon_control(), INSPECT_MR, &f, numbers, 4), 0);

	peer_close(&p);
	assert_true(daemon_wait_empty());
	assert_int_equal(inspect_qp(daemon_control(), qp.qp_create.qpn, &one), ENOENT);
	assert_int_equal(inspect_session(daemon_control(), s.number, &s), ENOENT);
	assert_int_equal(inspect_cq(daemon_control(), seen_cq.number, &seen_cq), ENOENT);
	assert_int_equal(inspect_mr(daemon_control(), mr.mr_reg.lkey, &seen_mr), ENOENT);
}

/* Pages of any size, put together, are the whole list. */
static void
long_lists_come_in_pages(void **state)
{
	struct inspect_filter f = INSPECT_ALL;
	uint64_t whole[REGIONS], page[REGIONS];
	struct ctl_rsp r;
	struct peer p;
	uint32_t pd;

	peer_open(&p);
	pd = peer_pd(p.sock);
	for (uint32_t i = 0; i < REGIONS; i++)
		assert_int_equal(mr_reg(&p, pd, &r), 0);
	assert_int_equal(inspect_list(daemon_control(), INSPECT_MR, &f, whole, REGIONS), REGIONS);
	for (uint32_t i = 1; i < REGIONS; i++)
		assert_true(whole[i - 1] < whole[i]);
	for (uint32_t most = 1; most < REGIONS; most++) {
		f.from = 0;
		for (uint32_t at = 0; at < REGIONS; at += most) {
			uint32_t n = most < REGIONS - at ? most : REGIONS - at;

			assert_int_equal(inspect_list(daemon_control(), INSPECT_MR, &f, page, most), REGIONS - at);
			assert_memory_equal(page, whole + at, n * sizeof(page[0]));
			f.from = page[n - 1] + 1;
		}
	}
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

static void
a_peer_without_arp_answer_is_named_while_it_is_asked_for_and_after(void **state)
{
	char text[INSPECT_TEXT_BYTES];
	struct ctl_rsp cq, qp, r;
	struct inspect_qp seen;
	struct peer p;
	int i;

	peer_open(&p);
	assert_int_equal(peer_ask_cq(&p, CQ_ENTRIES, &cq), 0);
	assert_int_equal(peer_ask_qp(&p, peer_pd(p.sock), cq.cq_create.handle, &qp), 0);
	start_connecting(&p, qp.qp_create.handle);
	for (i = 0; i < 5000; i++) {
		assert_int_equal(inspect_qp(daemon_control(), qp.qp_create.qpn, &seen), 0);
		if (seen.note[0] != '\0')
			break;
		usleep(100);
	}
	expect_part(inspect_explain(&seen, text), "no ARP or ND answer from 198.18.0.77 yet, asked for since");
	assert_true(peer_recv(p.sock, &r, NULL, 0));
	assert_int_equal(r.status, ETIMEDOUT);
	assert_int_equal(inspect_qp(daemon_control(), qp.qp_create.qpn, &seen), 0);
	expect_part(inspect_explain(&seen, text), "198.18.0.77 doesn't answer ARP or ND");
	expect_part(text, "INIT: it takes no packets until the program moves it to RTR");
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

static void
engines_tell_their_load_and_what_waits(void **state)
{
	struct inspect_engine e;

	assert_int_equal(inspect_engine(daemon_control(), 0, &e), 0);
	assert_true(e.stats.turns > 0);
	assert_true(e.load_percent <= 100);
	assert_int_equal(e.depths.transport.inflight_blocks_max, 3072);
	assert_int_equal(inspect_engine(daemon_control(), 1, &e), ENOENT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_program_has_can_be_seen),
		cmocka_unit_test(long_lists_come_in_pages),
		cmocka_unit_test(a_peer_without_arp_answer_is_named_while_it_is_asked_for_and_after),
		cmocka_unit_test(engines_tell_their_load_and_what_waits),
	};

	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
