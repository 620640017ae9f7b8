/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/bounce.c: what small messages from and to memory that isn't mapped look like to an engine, played here. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "bed.h"

enum {
	AREA_KEY = 0x9999,
	AREA_HANDLE = 77,
	KEY = 0x1100,
	OTHER_KEY = 0x1101,
	UNKNOWN_KEY = 0x2200,
	MEMORY_BYTES = 8192,
	ALL = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_READ,
};

static struct bed bed;
static struct client_pd pd;
static struct client_mr mr, other;
static uint8_t memory[MEMORY_BYTES];
static unsigned int areas, areas_gone;
static bool refuse_area;

/* ---- What registers the slots ---- */
int __wrap_client_destroy_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle);

static int
register_area(struct ibv_pd *ibpd, void *addr, size_t bytes, uint32_t *handle, uint32_t *lkey)
{
	assert_ptr_equal(ibpd, &pd.pd);
	assert_int_equal(bytes, BOUNCE_SLOTS * BOUNCE_SLOT_BYTES);
	if (refuse_area)
		return ENOMEM;
	*handle = AREA_HANDLE + areas;
	*lkey = AREA_KEY;
	areas++;
	return 0;
}

int
__wrap_client_destroy_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle)
{
	assert_ptr_equal(ctx, &bed.ctx);
	assert_int_equal(op, CTL_MR_DEREG);
	assert_int_equal(handle, AREA_HANDLE + areas_gone);
	areas_gone++;
	return 0;
}

static void
note(struct client_mr *m, uint32_t key, void *addr, uint64_t iova, uint32_t access, uint64_t lo, uint64_t hi)
{
	memset(m, 0, sizeof(*m));
	m->mr = (struct ibv_mr){ .context = &bed.ctx.v.context, .pd = &pd.pd, .addr = addr, .length = MEMORY_BYTES / 2, .lkey = key };
	m->access = access;
	m->iova = iova;
	client_bounce_note(m, &(struct bounce_reach){ .lo = lo, .hi = hi, .needed = true }, register_area);
}

/* Two MRs of which nothing is mapped, each with half of the memory; SGE addresses of the second one begin at 0. */
static void
begin(void)
{
	int fd = memfd_create("bounce", 0);

	assert_true(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
	for (unsigned int i = 0; i < MEMORY_BYTES; i++)
		memory[i] = (uint8_t)(i * 7 + 1);
	areas = areas_gone = 0;
	bed_init(&bed, IBV_QPT_RC);
	bed.ctx.bounce = true;
	assert_int_equal(mem_file_init(&bed.ctx.mem, fd, 1 << 20), 0);
	memset(&pd, 0, sizeof(pd));
	pd.pd.context = &bed.ctx.v.context;
	assert_int_equal(client_bounce_begin(&pd), 0);
	bed.qp.bounce = pd.bounce;
	note(&mr, KEY, memory, (uintptr_t)memory, ALL, 0, 0);
	note(&other, OTHER_KEY, memory + MEMORY_BYTES / 2, 0, ALL, 0, 0);
	assert_int_equal(areas, 1);
	assert_true(client_bounces(pd.bounce));
}

static void
end(void)
{
	client_bounce_forget(&mr);
	client_bounce_forget(&other);
	assert_int_equal(client_bounce_retire(&pd), 0);
	assert_int_equal(areas_gone, areas);
	client_bounce_end(&pd);
	mem_file_fini(&bed.ctx.mem);
	bed_fini(&bed);
}

static struct ibv_sge
sge(const void *at, uint32_t bytes)
{
	return (struct ibv_sge){ (uintptr_t)at, bytes, KEY };
}

static struct ibv_send_wr
send_wr(struct ibv_sge *sges, int n)
{
	return (struct ibv_send_wr){ .sg_list = sges, .num_sge = n, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
}

/* @return the SGE of a posted WQE, which has one */
static struct ring_sge *
posted(uint32_t counter)
{
	struct ring_sq_wqe *w = ring_slot(&bed.e_sq, counter);
	union ring_sq_ctl ctl = { .word = w->ctl };

	assert_true(ring_sq_ready(&bed.e_sq, counter));
	assert_int_equal(ctl.count, 1);
	return wqe_sges(w, ctl.opcode);
}

static struct ring_sge *
send_one(uint32_t counter, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(client_post_send(&bed.qp.qp.qp_base, &wr, &bad), 0);
	return posted(counter);
}

static void
engine_completes(uint32_t counter, bool is_recv, enum uroce_wc_status status, enum uroce_wc_op op, uint32_t bytes)
{
	struct ring_cqe *e = ring_slot(&bed.e_cq, bed.e_cq.counter);

	complete(&bed, counter, 5, is_recv);
	e->status = status;
	e->opcode = op;
	e->byte_len = bytes;
}

static enum ibv_wc_status
poll_one(void)
{
	struct ibv_wc wc;

	assert_int_equal(client_poll_cq(&bed.cq.cq, 1, &wc), 1);
	return wc.status;
}

static void
a_send_is_taken_when_it_is_posted(void **state)
{
	struct ibv_sge one = sge(memory + 3, 100), three[3];
	struct ring_sge *s;

	begin();
	s = send_one(0, send_wr(&one, 1));
	assert_true(s->lkey == AREA_KEY && s->length == 100);
	memory[3] = 0;
	assert_int_equal(*(uint8_t *)(uintptr_t)s->addr, 3 * 7 + 1);
	assert_memory_equal((void *)(uintptr_t)(s->addr + 1), memory + 4, 99);

	/* Several pieces become one; addresses are those of the MR. */
	three[0] = sge(memory + 500, 10);
	three[1] = (struct ibv_sge){ 1, 20, OTHER_KEY };
	three[2] = sge(memory + 200, 1);
	s = send_one(1, send_wr(three, 3));
	assert_true(s->lkey == AREA_KEY && s->length == 31);
	assert_memory_equal((void *)(uintptr_t)s->addr, memory + 500, 10);
	assert_memory_equal((void *)(uintptr_t)(s->addr + 10), memory + MEMORY_BYTES / 2 + 1, 20);
	assert_memory_equal((void *)(uintptr_t)(s->addr + 30), memory + 200, 1);
	end();
}

static void
what_may_not_be_taken_early_is_left_as_it_is(void **state)
{
	struct ibv_sge good = sge(memory, 8), large = sge(memory, BOUNCE_SLOT_BYTES + 1), beyond = sge(memory + MEMORY_BYTES / 2 - 7, 8),
		       unknown = { (uintptr_t)memory, 8, UNKNOWN_KEY }, before = { (uintptr_t)memory - 1, 8, KEY }, empty = sge(memory, 0);
	struct ibv_send_wr fenced = send_wr(&good, 1), read = send_wr(&good, 1), add = send_wr(&good, 1);
	struct ibv_sge *bad[] = { &large, &beyond, &unknown, &before, &empty };

	begin();
	fenced.send_flags |= IBV_SEND_FENCE;
	assert_int_equal(send_one(0, fenced)->lkey, KEY);
	/* Where data comes to. */
	read.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(send_one(1, read)->lkey, KEY);
	add.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(send_one(2, add)->lkey, KEY);
	for (unsigned int i = 0; i < 3; i++) {
		engine_completes(i, false, UROCE_WC_SUCCESS, UROCE_WC_SEND, 0);
		assert_int_equal(poll_one(), IBV_WC_SUCCESS);
	}
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_memory_equal(send_one(3 + i, send_wr(bad[i], 1)), bad[i], sizeof(*bad[i]));
	end();
}

static void
completions_free_slots_also_of_unsignalled_sends(void **state)
{
	struct ibv_sge s = sge(memory, 8);
	uint32_t at = 0;

	begin();
	for (unsigned int round = 0; round < BOUNCE_SLOTS; round++) {
		for (unsigned int i = 0; i < SQ_WR; i++)
			assert_int_equal(send_one(at++, send_wr(&s, 1))->lkey, AREA_KEY);
		/* One completion for all. */
		engine_completes(at - 1, false, UROCE_WC_SUCCESS, UROCE_WC_SEND, 0);
		assert_int_equal(poll_one(), IBV_WC_SUCCESS);
		assert_int_equal(bed.qp.sq_bounced, 0);
	}
	end();
}

static void
builders_use_slots_when_they_post(void **state)
{
	struct ibv_qp_ex *ex;
	uint32_t at = 0;

	begin();
	assert_int_equal(client_qp_set_builders(&bed.qp, IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE), 0);
	ex = &bed.qp.qp;
	for (unsigned int i = 0; i < 2 * BOUNCE_SLOTS; i++) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, KEY, (uintptr_t)memory + i, 9);
		/* What is given up has taken none. */
		if (i % 2 == 0) {
			ibv_wr_abort(ex);
			continue;
		}
		assert_int_equal(ibv_wr_complete(ex), 0);
		assert_int_equal(posted(at)->lkey, AREA_KEY);
		assert_memory_equal((void *)(uintptr_t)posted(at)->addr, memory + i, 9);
		engine_completes(at++, false, UROCE_WC_SUCCESS, UROCE_WC_SEND, 0);
		assert_int_equal(poll_one(), IBV_WC_SUCCESS);
	}
	end();
}

/* ---- Receives ---- */
static uint8_t *
recv_one(uint32_t counter, struct ibv_sge *sges, int n)
{
	struct ibv_recv_wr wr = { .sg_list = sges, .num_sge = n }, *bad;
	struct ring_rq_wqe *w = ring_slot(&bed.e_rq, counter);
	union ring_rq_ctl ctl;

	assert_int_equal(client_post_recv(&bed.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(ring_rq_ready(&bed.e_rq, counter));
	ctl.word = w->ctl;
	if (w->sge[0].lkey != AREA_KEY)
		return NULL;
	assert_int_equal(ctl.num_sge, 1);
	return (uint8_t *)(uintptr_t)w->sge[0].addr;
}

static void
a_receive_arrives_when_it_is_polled(void **state)
{
	struct ibv_sge s[2] = { sge(memory + 10, 8), { 100, 50, OTHER_KEY } };
	uint8_t before[MEMORY_BYTES], *slot;

	begin();
	memcpy(before, memory, sizeof(before));
	slot = recv_one(0, s, 2);
	assert_non_null(slot);
	memset(slot, 0xab, 58);
	engine_completes(0, true, UROCE_WC_SUCCESS, UROCE_WC_RECV, 20);
	assert_memory_equal(memory, before, sizeof(before));
	assert_int_equal(poll_one(), IBV_WC_SUCCESS);
	/* As many bytes as came, and no other. */
	memset(before + 10, 0xab, 8);
	memset(before + MEMORY_BYTES / 2 + 100, 0xab, 12);
	assert_memory_equal(memory, before, sizeof(before));
	assert_int_equal(bed.qp.rq_bounced, 0);
	end();
}

static void
receives_that_got_nothing_change_nothing(void **state)
{
	struct ibv_sge s = sge(memory, 64);
	uint8_t before[MEMORY_BYTES];
	uint32_t at = 0;

	begin();
	for (unsigned int i = 0; i < BOUNCE_SLOTS; i++) {
		assert_non_null(recv_one(at, &s, 1));
		memory[i % 64]++;
		memcpy(before, memory, sizeof(before));
		engine_completes(at++, true, UROCE_WC_WR_FLUSH_ERR, UROCE_WC_RECV, 64);
		assert_int_equal(poll_one(), IBV_WC_WR_FLUSH_ERR);
		/* The bytes of a WRITE are where its sender wanted them. */
		assert_non_null(recv_one(at, &s, 1));
		memory[i % 64]++;
		before[i % 64]++;
		engine_completes(at++, true, UROCE_WC_SUCCESS, UROCE_WC_RECV_RDMA_WITH_IMM, 64);
		assert_int_equal(poll_one(), IBV_WC_SUCCESS);
		assert_memory_equal(memory, before, sizeof(before));
	}
	end();
}

static void
memory_that_is_no_longer_registered_is_the_engines_to_refuse(void **state)
{
	struct ibv_sge two[2] = { sge(memory, 64), { 8, 8, OTHER_KEY } }, s = sge(memory + 64, 64);
	struct ring_rq_wqe *first, *second;
	uint8_t before[MEMORY_BYTES], *slot;
	union ring_rq_ctl ctl;

	begin();
	first = ring_slot(&bed.e_rq, 0);
	second = ring_slot(&bed.e_rq, 1);
	slot = recv_one(0, two, 2);
	assert_non_null(slot);
	assert_non_null(recv_one(1, &s, 1));
	/* The first has come, the second has not when the MR goes. */
	memset(slot, 0xab, 68);
	engine_completes(0, true, UROCE_WC_SUCCESS, UROCE_WC_RECV, 68);
	memcpy(before, memory, sizeof(before));
	memset(before, 0xab, 64);
	memset(before + MEMORY_BYTES / 2 + 8, 0xab, 4);
	client_bounce_forget(&mr);
	assert_memory_equal(memory, before, sizeof(before));
	ctl.word = first->ctl;
	assert_int_equal(ctl.num_sge, 2);
	assert_memory_equal(first->sge, two, sizeof(two));
	assert_true(ring_rq_ready(&bed.e_rq, 0) && ring_rq_ready(&bed.e_rq, 1));
	assert_memory_equal(second->sge, &s, sizeof(s));
	/* The program may have freed the memory: it isn't touched any more. */
	memset(memory, 1, 128);
	memset(before, 1, 128);
	assert_int_equal(poll_one(), IBV_WC_SUCCESS);
	engine_completes(1, true, UROCE_WC_LOC_PROT_ERR, UROCE_WC_RECV, 0);
	assert_int_equal(poll_one(), IBV_WC_LOC_PROT_ERR);
	assert_memory_equal(memory, before, sizeof(before));
	assert_int_equal(bed.qp.rq_bounced, 0);
	assert_int_equal(send_one(0, send_wr(&s, 1))->lkey, KEY);
	end();
}

static void
memory_that_is_read_only_takes_no_receives(void **state)
{
	struct ibv_sge s = sge(memory, 64);

	begin();
	client_bounce_forget(&mr);
	note(&mr, KEY, memory, (uintptr_t)memory, 0, 0, 0);
	assert_null(recv_one(0, &s, 1));
	assert_int_equal(send_one(0, send_wr(&s, 1))->lkey, AREA_KEY);
	end();
}

static void
receives_leave_slots_for_sends(void **state)
{
	struct ibv_sge s = sge(memory, 8);
	struct client_qp *qps = aligned_alloc(CLIENT_CACHE_LINE, BOUNCE_SLOTS * sizeof(*qps));
	struct ring_rq_wqe *w = calloc(1, ring_rq_stride(MAX_SGE));
	unsigned int n = 0;

	assert_true(qps != NULL && w != NULL);
	begin();
	for (unsigned int i = 0; i < BOUNCE_SLOTS; i++) {
		memcpy(&qps[i], &bed.qp, sizeof(bed.qp));
		w->sge[0] = (struct ring_sge){ s.addr, s.length, s.lkey };
		client_bounce_recv(&qps[i], i, w, 1);
		n += w->sge[0].lkey == AREA_KEY;
	}
	assert_int_equal(n, BOUNCE_SLOTS - BOUNCE_KEPT_FOR_SENDS);
	assert_int_equal(send_one(0, send_wr(&s, 1))->lkey, AREA_KEY);
	/* A QP that is destroyed or reset gives back what it has, and nothing of others. */
	client_bounce_drop(&qps[7]);
	client_bounce_drop(&qps[7]);
	for (n = 0; n < 2; n++) {
		w->sge[0] = (struct ring_sge){ s.addr, s.length, s.lkey };
		client_bounce_recv(&qps[BOUNCE_SLOTS - 1 - n], 0, w, 1);
		assert_int_equal(w->sge[0].lkey, KEY);
	}
	client_bounce_drop(&bed.qp);
	client_bounce_recv(&qps[7], 0, w, 1);
	assert_int_equal(w->sge[0].lkey, AREA_KEY);
	end();
	free(qps);
	free(w);
}

static void
without_a_free_slot_copiers_do_it(void **state)
{
	struct ibv_sge s = sge(memory, 8);
	struct client_qp *qps = aligned_alloc(CLIENT_CACHE_LINE, BOUNCE_SLOTS * sizeof(*qps));
	struct ring_sq_wqe *w = calloc(1, 64);

	assert_true(qps != NULL && w != NULL);
	begin();
	for (unsigned int i = 0; i < BOUNCE_SLOTS; i++) {
		union ring_sq_ctl ctl = { .opcode = UROCE_WR_SEND, .count = 1 };

		memcpy(&qps[i], &bed.qp, sizeof(bed.qp));
		*wqe_sges(w, UROCE_WR_SEND) = (struct ring_sge){ s.addr, s.length, s.lkey };
		client_bounce_send(&qps[i], w, &ctl);
		assert_int_equal(wqe_sges(w, UROCE_WR_SEND)->lkey, AREA_KEY);
	}
	assert_int_equal(send_one(0, send_wr(&s, 1))->lkey, KEY);
	client_bounce_drop(&qps[0]);
	assert_int_equal(send_one(1, send_wr(&s, 1))->lkey, AREA_KEY);
	free(qps);
	free(w);
	end();
}

static void
the_mapped_part_of_an_mr_needs_no_slots(void **state)
{
	struct ibv_sge inside = sge(memory + 1000, 100), across = sge(memory + 990, 100);
	struct ibv_recv_wr wr = { .sg_list = &inside, .num_sge = 1 }, *bad;

	begin();
	client_bounce_forget(&mr);
	note(&mr, KEY, memory, (uintptr_t)memory, ALL, (uintptr_t)memory + 1000, (uintptr_t)memory + 2000);
	assert_int_equal(send_one(0, send_wr(&inside, 1))->lkey, KEY);
	assert_int_equal(send_one(1, send_wr(&inside, 1))->lkey, KEY);
	assert_int_equal(send_one(2, send_wr(&across, 1))->lkey, AREA_KEY);
	assert_int_equal(client_post_recv(&bed.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(((struct ring_rq_wqe *)ring_slot(&bed.e_rq, 0))->sge[0].lkey, KEY);
	/* Registered anew, it is another MR. */
	client_bounce_forget(&mr);
	note(&mr, KEY, memory, (uintptr_t)memory, ALL, 0, 0);
	assert_int_equal(send_one(3, send_wr(&inside, 1))->lkey, AREA_KEY);
	end();
}

static void
a_pd_with_qps_keeps_its_slots(void **state)
{
	begin();
	pd.bounce->qps = 1;
	assert_int_equal(client_bounce_retire(&pd), EBUSY);
	assert_int_equal(areas_gone, 0);
	pd.bounce->qps = 0;
	/* Refused by the daemon for another reason, the PD goes on, and gets slots again with the next MR. */
	assert_int_equal(client_bounce_retire(&pd), 0);
	assert_false(client_bounces(pd.bounce));
	client_bounce_forget(&mr);
	note(&mr, KEY, memory, (uintptr_t)memory, ALL, 0, 0);
	assert_true(client_bounces(pd.bounce));
	assert_int_equal(areas, 2);
	end();
}

static void
without_slots_nothing_is_wrong(void **state)
{
	struct ibv_sge s = sge(memory, 8);

	begin();
	assert_int_equal(client_bounce_retire(&pd), 0);
	client_bounce_forget(&mr);
	refuse_area = true;
	note(&mr, KEY, memory, (uintptr_t)memory, ALL, 0, 0);
	refuse_area = false;
	assert_false(client_bounces(pd.bounce));
	assert_int_equal(send_one(0, send_wr(&s, 1))->lkey, KEY);
	assert_null(recv_one(0, &s, 1));
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_send_is_taken_when_it_is_posted),
		cmocka_unit_test(what_may_not_be_taken_early_is_left_as_it_is),
		cmocka_unit_test(completions_free_slots_also_of_unsignalled_sends),
		cmocka_unit_test(builders_use_slots_when_they_post),
		cmocka_unit_test(a_receive_arrives_when_it_is_polled),
		cmocka_unit_test(receives_that_got_nothing_change_nothing),
		cmocka_unit_test(memory_that_is_no_longer_registered_is_the_engines_to_refuse),
		cmocka_unit_test(memory_that_is_read_only_takes_no_receives),
		cmocka_unit_test(receives_leave_slots_for_sends),
		cmocka_unit_test(without_a_free_slot_copiers_do_it),
		cmocka_unit_test(the_mapped_part_of_an_mr_needs_no_slots),
		cmocka_unit_test(a_pd_with_qps_keeps_its_slots),
		cmocka_unit_test(without_slots_nothing_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
