/* SPDX-License-Identifier: BSD-3-Clause */
/* MRs for on-demand paging. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "pair.h"

enum { MAX_SESSIONS = 8, MAX_QP = 64 };

/** Write @p len bytes of memory with another key to the pair's. */
static void
write_from(struct pair *t, uint32_t lkey, uint64_t from, uint32_t len)
{
	uint32_t rkey = t->lkey;
	struct ring_cqe e;

	t->lkey = lkey;
	pair_post_with(t, 0, UROCE_WR_RDMA_WRITE, (const uint8_t *)from, len, t->mem, rkey);
	t->lkey = rkey;
	assert_true(pair_poll(t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
}

/** Register for on-demand paging. @return the status. */
static int
reg_on_demand(struct peer *p, uint32_t pd, uint32_t kind, uint64_t addr, uint64_t length, struct ctl_rsp *r)
{
	uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_req *q = (void *)buf;

	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){
		.pd = pd,
		.access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_ON_DEMAND,
		.addr = addr,
		.length = length,
		.iova = addr,
		.nb_segs = 1,
		.nb_in_msg = 1,
	};
	memcpy(buf + CTL_REQ_BYTES, &(struct ctl_seg){ .va = addr, .length = length, .kind = kind }, sizeof(struct ctl_seg));
	assert_int_equal(peer_send(p->sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(p->sock, r, NULL, 0));
	return r->status;
}

static void
on_demand_paging_takes_memory_that_comes_later(void **state)
{
	struct ctl_rsp one, all;
	struct pair t;
	uint8_t *later;

	pair_open(&t, CTL_SEG_CONVERTED);
	later = mmap(NULL, PAIR_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(reg_on_demand(&t.p, t.pd, CTL_SEG_CONVERTED, (uintptr_t)later, PAIR_BYTES, &one), EINVAL);
	assert_int_equal(reg_on_demand(&t.p, t.pd, CTL_SEG_REMOTE, (uintptr_t)later, PAIR_BYTES, &one), 0);
	/* Implicit: all of the program's memory, which no limit of registered memory would allow. */
	assert_int_equal(reg_on_demand(&t.p, t.pd, CTL_SEG_REMOTE, 0, UINT64_MAX, &all), 0);
	assert_ptr_equal(mmap(later, PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), later);
	memset(later, 0x31, PAIR_BYTES);
	write_from(&t, one.mr_reg.lkey, (uintptr_t)later, PAIR_BYTES);
	assert_memory_equal(t.mem, later, PAIR_BYTES);
	memset(later, 0x32, PAIR_BYTES);
	write_from(&t, all.mr_reg.lkey, (uintptr_t)later, PAIR_BYTES);
	assert_memory_equal(t.mem, later, PAIR_BYTES);
	munmap(later, PAIR_BYTES);
	pair_close(&t);
	assert_int_equal(daemon_counts().mrs, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_demand_paging_takes_memory_that_comes_later),
	};

	return DAEMON_TESTS(tests, MAX_SESSIONS, MAX_QP, NULL);
}
