/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon is killed between two requests, and another one goes on with what its checkpoint has. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_common.h>

#include "base/record.h"
#include "control/core/checkpoint.h"
#include "control/core/checkpoint_priv.h"
#include "control/core/control_priv.h"
#include "control/core/session_priv.h"
#include "killed.h"
#include "pair.h"
#include "program.h"
#include "second.h"

enum { RECVS = 3 };

/* ---- Tests ---- */
static void
everything_survives(void **state)
{
	struct second_stream records;
	struct program m;

	program_begin(&m);
	memset(m.memory, 0x5a, PROGRAM_MR_BYTES);
	killed_go_on(&records);
	assert_int_equal(second->control->taken_over.crashes, 1);
	assert_int_equal(second->control->taken_over.sessions, 1);
	assert_int_equal(second->control->taken_over.qps_lost, 0);
	program_check(&m);
	program_end(&m);
	killed_end(&records);
}

/** Nothing of what has gone comes back, and nothing of it is kept. */
static void
what_was_destroyed_is_gone(void **state)
{
	struct checkpoint_found found;
	struct stream_out o = { 0 };
	uint32_t before = 0, after = 0;
	struct program m;

	assert_true(daemon_wait_empty());
	for (uint32_t i = 0; i < KILLED_NUMBERS; i++)
		before += kept.fds[i] > 0;
	program_begin(&m);
	program_end(&m);
	assert_true(daemon_wait_empty());
	killed_now();
	for (uint32_t i = 0; i < KILLED_NUMBERS; i++)
		after += kept.fds[i] > 0;
	assert_int_equal(checkpoint_read(kept.memfd, &o, &found, NULL, NULL), 0);
	/* The stack. */
	assert_int_equal(found.slots, 1);
	assert_int_equal(after, before);
	stream_free(&o);
	killed_not();
}

/** The daemon has executed a request, and was killed before it took it out of the socket. */
static void
a_request_that_counts_is_answered_again(void **state)
{
	struct ctl_req q = killed_numbered(CTL_PD_ALLOC, 7);
	struct second_stream records;
	struct ctl_rsp r, again;
	struct peer p;

	peer_open(&p);
	peer_must(p.sock, &q, &r, NULL);
	assert_int_equal(r.number, 7);
	killed_now();
	assert_int_equal(peer_send(p.sock, &q, sizeof(q), NULL, 0), 0);
	killed_go_on(&records);
	assert_true(peer_recv(p.sock, &again, NULL, 0));
	assert_memory_equal(&again, &r, sizeof(r));
	assert_int_equal(second->control->count[OBJ_PD], 1);
	/* The next one is another one, also if it is the same. */
	q = killed_numbered(CTL_PD_ALLOC, 8);
	peer_must(p.sock, &q, &again, NULL);
	assert_int_not_equal(again.handle.handle, r.handle.handle);
	assert_int_equal(again.number, 8);
	assert_int_equal(peer_handle(p.sock, CTL_PD_FREE, again.handle.handle), 0);
	assert_int_equal(peer_handle(p.sock, CTL_PD_FREE, r.handle.handle), 0);
	peer_close(&p);
	killed_end(&records);
}

/** The same with descriptors, which the program gets again. */
static void
an_answer_is_repeated_with_its_descriptors(void **state)
{
	struct ctl_req q = killed_numbered(CTL_CHANNEL_CREATE, 9);
	struct second_stream records;
	struct stat first, second_time;
	int fds[2], more[2];
	struct ctl_rsp r;
	struct peer p;

	peer_open(&p);
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, fds, 2), 0);
	killed_now();
	assert_int_equal(peer_send(p.sock, &q, sizeof(q), NULL, 0), 0);
	killed_go_on(&records);
	assert_true(peer_recv(p.sock, &r, more, 2));
	assert_int_equal(r.status, 0);
	assert_int_equal(r.nb_fds, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fstat(fds[i], &first), 0);
		assert_int_equal(fstat(more[i], &second_time), 0);
		assert_int_equal(first.st_ino, second_time.st_ino);
		close(fds[i]);
		close(more[i]);
	}
	assert_int_equal(peer_handle(p.sock, CTL_CHANNEL_DESTROY, r.handle.handle), 0);
	peer_close(&p);
	killed_end(&records);
}

static void
a_request_that_does_not_count_is_executed(void **state)
{
	struct ctl_req q = killed_numbered(CTL_PD_ALLOC, 3);
	struct second_stream records;
	struct ctl_rsp r;
	struct peer p;

	peer_open(&p);
	killed_now();
	assert_int_equal(peer_send(p.sock, &q, sizeof(q), NULL, 0), 0);
	killed_go_on(&records);
	assert_true(peer_recv(p.sock, &r, NULL, 0));
	assert_int_equal(r.status, 0);
	assert_int_equal(r.number, 3);
	assert_int_equal(second->control->count[OBJ_PD], 1);
	peer_close(&p);
	killed_end(&records);
}

/** Segments of an MR come in several messages; the daemon is killed in between. */
static void
a_registration_goes_on(void **state)
{
	struct {
		struct ctl_req q;
		struct ctl_seg segs[2];
	} m = { .q = killed_numbered(CTL_MR_SEGS, 5) };
	uint8_t *memory = aligned_alloc(4096, 4 * 4096);
	uint64_t va = (uintptr_t)memory;
	struct second_stream records;
	struct ctl_rsp r;
	struct peer p;
	uint32_t pd;

	peer_open(&p);
	pd = peer_pd(p.sock);
	m.q.mr_segs.nb_in_msg = 2;
	for (int i = 0; i < 2; i++)
		m.segs[i] = (struct ctl_seg){ .va = va + (uint64_t)i * 4096, .length = 4096, .kind = CTL_SEG_REMOTE };
	assert_int_equal(peer_send(p.sock, &m, sizeof(m), NULL, 0), 0);
	assert_true(peer_recv(p.sock, &r, NULL, 0));
	assert_int_equal(r.status, 0);
	killed_go_on(&records);
	m.q = killed_numbered(CTL_MR_REG, 6);
	m.q.mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .addr = va, .length = 4 * 4096, .iova = va, .nb_segs = 4, .nb_in_msg = 2 };
	for (int i = 0; i < 2; i++)
		m.segs[i].va += 2 * 4096;
	assert_int_equal(peer_send(p.sock, &m, sizeof(m), NULL, 0), 0);
	assert_true(peer_recv(p.sock, &r, NULL, 0));
	assert_int_equal(r.status, 0);
	peer_close(&p);
	killed_end(&records);
	free(memory);
}

/** Change a byte of each record of one session. */
static void
damage(uint64_t session)
{
	struct stat st;
	uint8_t *p;

	assert_int_equal(fstat(kept.memfd, &st), 0);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, kept.memfd, 0);
	assert_true(p != MAP_FAILED);
	for (off_t at = CHECKPOINT_PAGE_BYTES; at < st.st_size;) {
		const struct checkpoint_chunk *c = (const void *)(p + at);

		at += CHECKPOINT_PAGE_BYTES;
		for (uint64_t i = 0; i < c->slots; i++, at += (off_t)1 << c->shift) {
			struct checkpoint_slot *s = (void *)(p + at);

			if (s->magic != 0 && s->session == session)
				((uint8_t *)(s + 1))[s->bytes / 2] ^= 1;
		}
	}
	munmap(p, (size_t)st.st_size);
}

static void
damage_ends_one_session(void **state)
{
	struct second_stream records;
	struct program a;
	struct peer b;
	uint64_t id;

	peer_open(&b);
	id = TAILQ_FIRST(&daemon_control()->sessions)->id;
	program_begin(&a);
	killed_now();
	damage(id);
	killed_go_on(&records);
	assert_int_equal(second->control->taken_over.sessions, 1);
	program_check(&a);
	assert_int_equal(second->control->nb_sessions, 1);
	program_end(&a);
	peer_close(&b);
	killed_end(&records);
}

/** What was posted and not executed is executed by the next daemon, and nothing twice. */
static void
connected_qps_go_on(void **state)
{
	struct second_stream records;
	struct ring_cqe cqe;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	for (int i = 0; i < RECVS; i++)
		pair_post_recv(&t, 1, t.mem + PAIR_BYTES, 64);
	pair_post(&t, 0, UROCE_WR_SEND, t.mem, 64, NULL);
	for (int i = 0; i < 2; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_SUCCESS);
	}
	killed_now();
	memset(t.mem, 0x77, 64);
	pair_post(&t, 0, UROCE_WR_SEND, t.mem, 64, NULL);
	killed_go_on(&records);
	assert_int_equal(second->control->taken_over.qps_lost, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_SUCCESS);
	}
	assert_int_equal(t.mem[PAIR_BYTES + 63], 0x77);
	memset(t.mem, 0x78, 64);
	pair_post(&t, 0, UROCE_WR_SEND, t.mem, 64, NULL);
	for (int i = 0; i < 2; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_SUCCESS);
	}
	assert_int_equal(t.mem[PAIR_BYTES + 63], 0x78);
	peer_close(&t.p);
	killed_end(&records);
}

/** Without a journal a QP that may have had traffic is in ERR. Its program is told, and what it has posted is flushed once. */
static void
a_qp_without_journal_fails(void **state)
{
	struct second_stream records;
	struct ctl_async_event ev;
	struct ring_cqe cqe;
	struct pair t;
	bool told[2] = { false };

	pair_open(&t, CTL_SEG_CONVERTED);
	for (int i = 0; i < RECVS; i++)
		pair_post_recv(&t, 1, t.mem + PAIR_BYTES, 64);
	pair_post(&t, 0, UROCE_WR_SEND, t.mem, 64, NULL);
	for (int i = 0; i < 2; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_SUCCESS);
	}
	killed_now();
	killed_lose_journals();
	killed_go_on(&records);
	assert_int_equal(second->control->taken_over.qps_lost, 2);
	for (int i = 0; i < RECVS - 1; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_WR_FLUSH_ERR);
		assert_int_equal(cqe.qpn, t.end[1].qp.qpn);
	}
	/* And nothing else: what is posted from now on comes next. */
	pair_post(&t, 0, UROCE_WR_SEND, t.mem, 64, NULL);
	assert_true(pair_poll(&t, &cqe));
	assert_int_equal(cqe.status, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(cqe.qpn, t.end[0].qp.qpn);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(recv(t.p.async_fd, &ev, sizeof(ev), 0), sizeof(ev));
		if (ev.type == UROCE_EVENT_QP_FATAL)
			told[i] = true;
	}
	assert_true(told[0] && told[1]);
	peer_close(&t.p);
	killed_end(&records);
}

/** WQEs in flight are fetched from the SQ again. A program that has made one longer loses that QP, and nothing else. */
static void
a_qp_whose_sq_was_changed_fails(void **state)
{
	struct second_stream records;
	struct ctl_async_event ev;
	struct ring_sq_wqe *w;
	struct ring_cqe cqe;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	/* They wait for receives. When the first has got one and is complete, the others have been fetched. */
	for (int i = 0; i < RECVS; i++)
		pair_post(&t, 0, UROCE_WR_SEND, t.mem, 64, NULL);
	pair_post_recv(&t, 1, t.mem + PAIR_BYTES, 64);
	for (int i = 0; i < 2; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_SUCCESS);
	}
	killed_now();
	w = ring_slot(&t.end[0].sq, t.end[0].sq.counter - 1);
	wqe_sges(w, UROCE_WR_SEND)->length = PAIR_BYTES;
	killed_go_on(&records);
	assert_int_equal(second->control->taken_over.qps_lost, 1);
	assert_int_equal(recv(t.p.async_fd, &ev, sizeof(ev), 0), sizeof(ev));
	assert_int_equal(ev.type, UROCE_EVENT_QP_FATAL);
	/* It flushes what it had, and what is posted from now on. The other one doesn't. */
	pair_post_recv(&t, 1, t.mem + PAIR_BYTES, 64);
	pair_post(&t, 0, UROCE_WR_SEND, t.mem, 64, NULL);
	for (int i = 0; i < RECVS; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_WR_FLUSH_ERR);
		assert_int_equal(cqe.qpn, t.end[0].qp.qpn);
	}
	peer_close(&t.p);
	killed_end(&records);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_survives),
		cmocka_unit_test(what_was_destroyed_is_gone),
		cmocka_unit_test(a_request_that_counts_is_answered_again),
		cmocka_unit_test(an_answer_is_repeated_with_its_descriptors),
		cmocka_unit_test(a_request_that_does_not_count_is_executed),
		cmocka_unit_test(a_registration_goes_on),
		cmocka_unit_test(damage_ends_one_session),
		cmocka_unit_test(connected_qps_go_on),
		cmocka_unit_test(a_qp_whose_sq_was_changed_fails),
		/* The last one: the daemon of these tests has no journals afterwards. */
		cmocka_unit_test(a_qp_without_journal_fails),
	};

	daemon_engines = 2;
	daemon_checkpoint = &killed_host;
	return DAEMON_TESTS(tests, 16, 64, NULL);
}
