/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/faults.c and faults_parse.c: what UROCE_FAULTS may say, and what then happens to work requests. The tests play the engine. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bed.h"

#define INVALID UINT32_MAX

enum { LKEY = 0x1234 };

static void
parses(const char *text, uint64_t reg_fail, uint64_t send_error, uint64_t qp_error, const char *log)
{
	struct client_fault_plan plan;
	char err[512] = "";

	assert_int_equal(client_faults_parse(text, &plan, err, sizeof(err)), 0);
	assert_string_equal(err, "");
	assert_true(plan.reg_fail == reg_fail && plan.send_error == send_error && plan.qp_error == qp_error);
	assert_string_equal(plan.log, log);
}

static void
refuses(const char *text, const char *why)
{
	struct client_fault_plan plan;
	char err[512] = "";

	assert_int_equal(client_faults_parse(text, &plan, err, sizeof(err)), EINVAL);
	if (!strstr(err, why))
		print_error("\"%s\": expected \"%s\" in \"%s\"\n", text, why, err);
	assert_non_null(strstr(err, why));
}

static void
a_plan_names_faults_in_any_order(void **state)
{
	parses("send-error=100", 0, 100, 0, "");
	parses("qp-error=1,log=/tmp/a b,reg-fail=1000000000", 1000000000, 0, 1, "/tmp/a b");
	parses("send-error=007", 0, 7, 0, "");
}

static void
a_wrong_plan_is_refused_with_what_would_be_right(void **state)
{
	char text[5000];

	refuses("", "it is empty: give faults like send-error=100");
	refuses("send-eror=1", "\"send-eror\": there is no such fault; there are reg-fail=N, send-error=N, recv-error=N, qp-error=N, "
		"device-fatal=N, late-completion=N, log=PATH");
	refuses("Send-error=1", "no such fault");
	refuses("send-error =1", "no such fault");
	refuses("send-error", "send-error has no number: give send-error=N, with N from 1 to 1000000000");
	refuses("send-error=", "send-error has no number");
	refuses("send-error=0", "send-error=0: must be a whole number from 1 to 1000000000");
	refuses("send-error=1000000001", "must be a whole number");
	refuses("send-error=18446744073709551617", "must be a whole number");
	refuses("send-error=-1", "send-error=-1: must be a whole number");
	refuses("send-error=+1", "must be a whole number");
	refuses("send-error= 1", "must be a whole number");
	refuses("send-error=1x", "send-error=1x: must be a whole number");
	refuses("send-error=0x10", "must be a whole number");
	refuses("send-error=1.5", "must be a whole number");
	refuses("send-error=1,send-error=2", "send-error is given twice");
	refuses("send-error=1,", "nothing between two commas or at an end");
	refuses(",send-error=1", "nothing between two commas or at an end");
	refuses("send-error=1,,qp-error=1", "nothing between two commas or at an end");
	refuses("=1", "\"\": there is no such fault");
	refuses("send-error=1,log=here", "log=here: must be the path of a file that begins with /");
	refuses("send-error=1,log", "log=: must be the path");
	refuses("send-error=1,log=/a,log=/b", "log is given twice");
	refuses("log=/a", "it names no fault");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	refuses(text, "it is longer than the 4351 bytes");
	memcpy(text, "log=/", 5);
	text[4200] = 0;
	refuses(text, "must be the path");
}

static void
begin(struct bed *b, const char *text)
{
	struct client_fault_plan plan;
	char err[512];

	assert_int_equal(client_faults_parse(text, &plan, err, sizeof(err)), 0);
	/* The variable isn't set, so there is no plan but this one. */
	client_faults_begin(&plan);
	bed_init(b, IBV_QPT_RC);
	assert_int_equal(client_faults_attach(&b->ctx), 0);
	assert_true(b->ctx.faults && b->ctx.v.context.ops.post_send != client_post_send);
}

static struct ring_sge
posted(struct bed *b, uint32_t counter, union ring_sq_ctl *ctl)
{
	struct ring_sq_wqe *w = ring_slot(&b->e_sq, counter);

	assert_true(ring_sq_ready(&b->e_sq, counter));
	ctl->word = w->ctl;
	return *wqe_sges(w, ctl->opcode);
}

static void
send_error_spoils_the_lkey_of_one_work_request(void **state)
{
	struct ibv_sge sge[2] = { { 0x1000, 8, LKEY }, { 0x2000, 16, LKEY } };
	struct ibv_send_wr wr[4], *bad = NULL;
	union ring_sq_ctl ctl;
	struct ring_sge s;
	struct bed b;

	begin(&b, "send-error=3");
	for (int i = 0; i < 4; i++) {
		wr[i] = write_wr(sge, 2);
		wr[i].wr_id = i;
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, wr, &bad), 0);
	for (uint32_t i = 0; i < 4; i++) {
		s = posted(&b, i, &ctl);
		assert_true(s.addr == 0x1000 && s.length == 8 && s.lkey == (i == 2 ? INVALID : LKEY));
		assert_int_equal(ctl.count, i == 2 ? 1 : 2);
		assert_int_equal(((struct ring_sq_wqe *)ring_slot(&b.e_sq, i))->wr_id, i);
	}
	/* The program's own are as they were, and there is nothing more to come. */
	assert_true(wr[2].num_sge == 2 && wr[2].sg_list == sge && wr[2].next == &wr[3] && sge[0].lkey == LKEY);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr[3], &bad), 0);
	assert_int_equal(posted(&b, 4, &ctl).lkey, LKEY);
	bed_fini(&b);
}

static void
a_work_request_without_memory_gets_some_that_it_may_not_read(void **state)
{
	char text[] = "inline";
	struct ibv_sge sge = { (uintptr_t)text, sizeof(text), 0 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	union ring_sq_ctl ctl;
	struct ring_sge s;
	struct bed b;

	begin(&b, "send-error=1");
	wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	s = posted(&b, 0, &ctl);
	assert_true(s.lkey == INVALID && s.length == sizeof(text) && ctl.count == 1 && ctl.flags == UROCE_SEND_SIGNALED);
	bed_fini(&b);
	begin(&b, "send-error=1");
	wr = write_wr(NULL, 0);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	s = posted(&b, 0, &ctl);
	assert_true(s.lkey == INVALID && s.length == 1 && ctl.count == 1);
	bed_fini(&b);
}

static void
what_needs_no_lkey_leaves_the_error_to_the_next(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, LKEY };
	struct ibv_send_wr wr = write_wr(&sge, 1), inv = { .opcode = IBV_WR_LOCAL_INV, .next = &wr }, *bad;
	union ring_sq_ctl ctl;
	struct bed b;

	begin(&b, "send-error=1");
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &inv, &bad), 0);
	posted(&b, 0, &ctl);
	assert_true(ctl.opcode == UROCE_WR_LOCAL_INV && ctl.count == 0);
	assert_int_equal(posted(&b, 1, &ctl).lkey, INVALID);
	bed_fini(&b);
}

/* The error is that of WR number @p at, and the queue is full before it. */
static void
full_before(const char *text, uint32_t at)
{
	struct ibv_sge sge = { 0x1000, 8, LKEY };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad = NULL;
	union ring_sq_ctl ctl;
	struct bed b;

	begin(&b, text);
	for (int i = 0; i < SQ_WR; i++)
		assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	for (int i = 0; i < 5; i++) {
		bad = NULL;
		assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
		assert_ptr_equal(bad, &wr);
	}
	atomic_store(&b.qp.sq_tail, 2);
	for (uint32_t i = SQ_WR; i < SQ_WR + 2; i++) {
		assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
		assert_int_equal(posted(&b, i, &ctl).lkey, i + 1 == at ? INVALID : LKEY);
	}
	bed_fini(&b);
}

/* How often a program tries while its queue is full is a matter of time; what is posted isn't. */
static void
only_what_was_posted_is_counted(void **state)
{
	full_before("send-error=7", 7);
	full_before("send-error=8", 8);
}

static void
builders_are_counted_with_the_rest(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, LKEY };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	union ring_sq_ctl ctl;
	struct ring_sge s;
	struct bed b;

	begin(&b, "send-error=3");
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, IBV_QP_EX_WITH_SEND), 0);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	ibv_wr_start(&b.qp.qp);
	for (int i = 0; i < 3; i++) {
		ibv_wr_send(&b.qp.qp);
		if (i == 1)
			ibv_wr_set_inline_data(&b.qp.qp, "abc", 4);
		else
			ibv_wr_set_sge(&b.qp.qp, LKEY, 0x1000, 8);
	}
	assert_int_equal(ibv_wr_complete(&b.qp.qp), 0);
	assert_int_equal(posted(&b, 1, &ctl).lkey, LKEY);
	s = posted(&b, 2, &ctl);
	assert_true(s.lkey == INVALID && s.length == 1 && ctl.count == 1 && !(ctl.flags & UROCE_SEND_INLINE));
	assert_int_equal(posted(&b, 3, &ctl).lkey, LKEY);
	/* The lock is free again. */
	ibv_wr_start(&b.qp.qp);
	ibv_wr_abort(&b.qp.qp);
	bed_fini(&b);
}

/* A daemon that answers one request well, and sees what is posted when it comes. */
struct answer {
	struct bed *bed;
	pthread_t thread;
	int theirs;
	struct ctl_req req;
	uint32_t posted; /* slots of the SQ that an engine finds at that moment */
};

static void *
answer_one(void *arg)
{
	struct ctl_rsp rsp = { .magic = CTL_MAGIC, .op = CTL_QP_MODIFY };
	struct answer *a = arg;

	if (recv(a->theirs, &a->req, sizeof(a->req), 0) == sizeof(a->req)) {
		while (ring_sq_ready(&a->bed->e_sq, a->posted))
			a->posted++;
		(void)!send(a->theirs, &rsp, sizeof(rsp), 0);
	}
	return NULL;
}

static void
answer_begin(struct answer *a, struct bed *b)
{
	int fds[2];

	*a = (struct answer){ .bed = b };
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	b->ctx.sock = fds[0];
	a->theirs = fds[1];
	pthread_mutex_init(&b->ctx.ctl_lock, NULL);
	assert_int_equal(pthread_create(&a->thread, NULL, answer_one, a), 0);
}

/* The QP was put into ERR once, after @p before work requests had been posted. */
static void
assert_put_into_error(struct answer *a, uint32_t before)
{
	char byte;

	/* Nothing was asked if it waits still; then this ends it. */
	shutdown(a->bed->ctx.sock, SHUT_WR);
	assert_int_equal(pthread_join(a->thread, NULL), 0);
	assert_int_equal(a->req.op, CTL_QP_MODIFY);
	assert_true(a->req.qp_modify.mask == UROCE_QP_STATE && a->req.qp_modify.attr.qp_state == UROCE_QPS_ERR);
	assert_int_equal(a->posted, before);
	assert_int_equal(a->bed->qp.qp.qp_base.state, IBV_QPS_ERR);
	assert_int_equal(recv(a->theirs, &byte, 1, 0), 0);
	close(a->bed->ctx.sock);
	close(a->theirs);
}

static void
qp_error_puts_the_qp_into_err_before_the_post(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, LKEY };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	union ring_sq_ctl ctl;
	struct answer a;
	struct bed b;

	begin(&b, "qp-error=2");
	answer_begin(&a, &b);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	/* It has completed, and nobody has polled it. */
	complete(&b, 0, wr.wr_id, false);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(posted(&b, 2, &ctl).lkey, LKEY);
	assert_put_into_error(&a, 1);
	bed_fini(&b);
}

static void
qp_error_parts_the_list_of_builders(void **state)
{
	struct answer a;
	struct bed b;

	begin(&b, "qp-error=3");
	answer_begin(&a, &b);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, IBV_QP_EX_WITH_SEND), 0);
	ibv_wr_start(&b.qp.qp);
	for (int i = 0; i < 4; i++)
		ibv_wr_send(&b.qp.qp);
	assert_int_equal(ibv_wr_complete(&b.qp.qp), 0);
	assert_true(ring_sq_ready(&b.e_sq, 3) && !ring_sq_ready(&b.e_sq, 4));
	assert_put_into_error(&a, 2);
	bed_fini(&b);
}

/* man ibv_post_send: in INIT nothing can be posted, with or without faults. */
static void
qp_error_waits_for_a_qp_that_can_send(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, LKEY };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct answer a;
	struct bed b;

	begin(&b, "qp-error=1");
	answer_begin(&a, &b);
	b.qp_shared.state = UROCE_QPS_INIT;
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	assert_int_equal(b.qp.qp.qp_base.state, IBV_QPS_RESET);
	b.qp_shared.state = UROCE_QPS_RTS;
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_put_into_error(&a, 0);
	bed_fini(&b);
}

/* Else the time that passes would decide how many of them complete well. */
static void
qp_error_waits_for_completions_but_not_for_ever(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, LKEY };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	uint64_t begin_ns;
	struct answer a;
	struct bed b;

	begin(&b, "qp-error=2");
	answer_begin(&a, &b);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	begin_ns = client_now_ns();
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(client_now_ns() - begin_ns >= 1000000000);
	assert_put_into_error(&a, 1);
	bed_fini(&b);
}

static void
one_registration_fails(void **state)
{
	struct ibv_pd pd;
	struct bed b;
	char byte;

	begin(&b, "reg-fail=2");
	assert_false(client_faults_reg());
	pd = (struct ibv_pd){ .context = &b.ctx.v.context };
	errno = 0;
	assert_null(ibv_reg_mr(&pd, &byte, 1, 0));
	assert_int_equal(errno, ENOMEM);
	assert_false(client_faults_reg());
	bed_fini(&b);
}

static struct ibv_recv_wr
recv_wr(struct ibv_sge *sge, int n)
{
	return (struct ibv_recv_wr){ .wr_id = 5, .sg_list = sge, .num_sge = n };
}

static void
received_into(struct bed *b, uint32_t counter, uint32_t lkey, uint32_t length, uint16_t count)
{
	struct ring_rq_wqe *w = ring_slot(&b->e_rq, counter);
	union ring_rq_ctl ctl = { .word = w->ctl };

	assert_true(ring_rq_ready(&b->e_rq, counter));
	assert_int_equal(ctl.num_sge, count);
	assert_true(w->wr_id == 5 && w->sge[0].lkey == lkey && w->sge[0].length == length && w->sge[0].addr == 0x1000);
}

static void
recv_error_spoils_the_lkey_of_one_receive(void **state)
{
	struct ibv_sge sge[2] = { { 0x1000, 8, LKEY }, { 0x2000, 16, LKEY } };
	struct ibv_recv_wr wr[3], *bad = NULL;
	struct bed b;

	begin(&b, "recv-error=2");
	for (int i = 0; i < 3; i++) {
		wr[i] = recv_wr(sge, 2);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(ibv_post_recv(&b.qp.qp.qp_base, wr, &bad), 0);
	received_into(&b, 0, LKEY, 8, 2);
	/* A message that fitted fits still. */
	received_into(&b, 1, INVALID, 24, 1);
	received_into(&b, 2, LKEY, 8, 2);
	assert_true(wr[1].num_sge == 2 && wr[1].sg_list == sge && sge[0].lkey == LKEY);
	bed_fini(&b);
}

static void
a_receive_that_is_refused_leaves_the_error_to_the_next(void **state)
{
	struct ibv_sge sge[MAX_SGE + 1] = { { 0x1000, 8, LKEY } };
	struct ibv_recv_wr wr = recv_wr(sge, MAX_SGE + 1), *bad = NULL;
	struct bed b;

	begin(&b, "recv-error=1");
	assert_int_equal(ibv_post_recv(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	wr = recv_wr(sge, 1);
	assert_int_equal(ibv_post_recv(&b.qp.qp.qp_base, &wr, &bad), 0);
	received_into(&b, 0, INVALID, 8, 1);
	bed_fini(&b);
}

static void
device_fatal_ends_the_session_before_the_post(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, LKEY };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	int control[2], async[2];
	struct bed b;
	char byte;

	begin(&b, "device-fatal=2");
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, async), 0);
	b.ctx.sock = control[0];
	b.ctx.v.context.async_fd = async[0];
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(recv(control[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	complete(&b, 0, wr.wr_id, false);
	/* The daemon has ended the session. */
	close(async[1]);
	assert_int_equal(ibv_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(recv(control[1], &byte, 1, MSG_DONTWAIT), 0);
	close(control[0]);
	close(control[1]);
	close(async[0]);
	bed_fini(&b);
}

static void
a_late_completion_is_not_there_for_100_ms(void **state)
{
	uint64_t begin_ns = client_now_ns();
	struct ibv_wc wc[4];
	struct bed b;
	int n;

	begin(&b, "late-completion=3");
	for (uint32_t i = 0; i < 4; i++)
		complete(&b, i, i, false);
	/* Those before it are not late. */
	assert_int_equal(ibv_poll_cq(&b.cq.cq, 4, wc), 2);
	assert_int_equal(ibv_poll_cq(&b.cq.cq, 4, wc), 0);
	while ((n = ibv_poll_cq(&b.cq.cq, 4, wc)) == 0)
		usleep(1000);
	assert_int_equal(n, 2);
	assert_true(wc[0].wr_id == 2 && wc[1].wr_id == 3);
	assert_true(client_now_ns() - begin_ns >= CLIENT_FAULTS_LATE_NS);
	bed_fini(&b);
}

static void
nothing_is_late_before_it_has_come(void **state)
{
	struct ibv_wc wc;
	struct bed b;

	begin(&b, "late-completion=1");
	assert_int_equal(ibv_poll_cq(&b.cq.cq, 1, &wc), 0);
	usleep(CLIENT_FAULTS_LATE_NS / 1000);
	complete(&b, 0, 1, false);
	assert_int_equal(ibv_poll_cq(&b.cq.cq, 1, &wc), 0);
	usleep(CLIENT_FAULTS_LATE_NS / 1000);
	assert_int_equal(ibv_poll_cq(&b.cq.cq, 1, &wc), 1);
	bed_fini(&b);
}

/* No event would tell of it afterwards, since it was there before the CQ was armed. */
static void
arming_a_cq_takes_as_long_as_its_completion_is_late(void **state)
{
	uint64_t begin_ns;
	struct ibv_wc wc[4];
	struct bed b;

	for (uint32_t polled = 0; polled < 2; polled++) {
		begin(&b, "late-completion=2");
		complete(&b, 0, 0, false);
		complete(&b, 1, 1, false);
		if (polled) {
			assert_int_equal(ibv_poll_cq(&b.cq.cq, 4, wc), 1);
			assert_int_equal(ibv_poll_cq(&b.cq.cq, 4, wc), 0);
		}
		begin_ns = client_now_ns();
		ibv_req_notify_cq(&b.cq.cq, 0);
		assert_true(client_now_ns() - begin_ns >= CLIENT_FAULTS_LATE_NS / 2);
		assert_int_equal(ibv_poll_cq(&b.cq.cq, 4, wc), 2 - (int)polled);
		begin_ns = client_now_ns();
		ibv_req_notify_cq(&b.cq.cq, 0);
		assert_true(client_now_ns() - begin_ns < CLIENT_FAULTS_LATE_NS);
		bed_fini(&b);
	}
}

static void
the_log_has_a_line_for_each_fault(void **state)
{
	char path[] = "/tmp/uroce-faults-XXXXXX", text[200], want[100], said[100] = "";
	int fd = mkstemp(path);
	struct bed b;

	assert_true(fd >= 0);
	snprintf(text, sizeof(text), "reg-fail=2,log=%s", path);
	begin(&b, text);
	for (int i = 0; i < 4; i++)
		client_faults_reg();
	snprintf(want, sizeof(want), "%d reg-fail 2\n", (int)getpid());
	assert_true(read(fd, said, sizeof(said) - 1) > 0);
	assert_string_equal(said, want);
	close(fd);
	unlink(path);
	bed_fini(&b);
}

static void
a_child_counts_for_itself(void **state)
{
	struct bed b;
	int status;
	pid_t child;

	begin(&b, "reg-fail=2");
	client_fork_setup();
	assert_false(client_faults_reg());
	assert_true(client_faults_reg());
	child = fork();
	if (!child)
		_exit(!client_faults_reg() && client_faults_reg() && !client_faults_reg() ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	bed_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_names_faults_in_any_order),
		cmocka_unit_test(a_wrong_plan_is_refused_with_what_would_be_right),
		cmocka_unit_test(send_error_spoils_the_lkey_of_one_work_request),
		cmocka_unit_test(a_work_request_without_memory_gets_some_that_it_may_not_read),
		cmocka_unit_test(what_needs_no_lkey_leaves_the_error_to_the_next),
		cmocka_unit_test(only_what_was_posted_is_counted),
		cmocka_unit_test(builders_are_counted_with_the_rest),
		cmocka_unit_test(qp_error_puts_the_qp_into_err_before_the_post),
		cmocka_unit_test(qp_error_parts_the_list_of_builders),
		cmocka_unit_test(qp_error_waits_for_a_qp_that_can_send),
		cmocka_unit_test(qp_error_waits_for_completions_but_not_for_ever),
		cmocka_unit_test(recv_error_spoils_the_lkey_of_one_receive),
		cmocka_unit_test(a_receive_that_is_refused_leaves_the_error_to_the_next),
		cmocka_unit_test(device_fatal_ends_the_session_before_the_post),
		cmocka_unit_test(a_late_completion_is_not_there_for_100_ms),
		cmocka_unit_test(nothing_is_late_before_it_has_come),
		cmocka_unit_test(arming_a_cq_takes_as_long_as_its_completion_is_late),
		cmocka_unit_test(one_registration_fails),
		cmocka_unit_test(the_log_has_a_line_for_each_fault),
		cmocka_unit_test(a_child_counts_for_itself),
	};

	unsetenv("UROCE_FAULTS");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
