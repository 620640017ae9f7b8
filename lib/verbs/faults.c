/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors on purpose, as UROCE_FAULTS asks for them. A context that has faults gets other functions for posting, polling and arming, so the
 * others pay nothing. Each error is a real one: the transport finds the key invalid, or flushes what is posted.
 *
 * Everything is counted per process and happens once. A WR that couldn't be posted is not counted, since how often a
 * program tries is a matter of time.
 */
#include "verbs/client_priv.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* No MR has this key: its index is beyond any table. */
#define INVALID_LKEY UINT32_MAX
_Static_assert(INVALID_LKEY >> 8 >= UROCE_MAX_MR, "the key of an MR");

/* How long a QP may take to complete what was posted before it is put into ERR, or its device goes. */
#define SETTLE_NS UINT64_C(1000000000)
/* How long the daemon may take until it has ended a session. */
enum { SESSION_END_MS = 1000 };

/* Opcodes that read or write local memory by an lkey. The eight bytes of ATOMIC_WRITE are always inline. */
#define OPS_WITH_LKEY \
	(1u << UROCE_WR_RDMA_WRITE | 1u << UROCE_WR_RDMA_WRITE_WITH_IMM | 1u << UROCE_WR_SEND | 1u << UROCE_WR_SEND_WITH_IMM | \
	 1u << UROCE_WR_SEND_WITH_INV | 1u << UROCE_WR_RDMA_READ | 1u << UROCE_WR_ATOMIC_CMP_AND_SWP | 1u << UROCE_WR_ATOMIC_FETCH_AND_ADD)

struct fault {
	const char *name;
	uint64_t at;          /* 0: never */
	_Atomic bool pending; /* still to come */
};

/* Of this process. */
static struct {
	bool wanted;
	int err; /* what opening a device returns: UROCE_FAULTS is wrong */
	struct fault reg_fail, send_error, recv_error, qp_error, device_fatal, late_completion;
	_Atomic uint64_t regs, sends, recvs, completions; /* so far */
	char log[PATH_MAX];
} faults;

/* The completion that is late. */
static struct {
	pthread_mutex_t mutex;
	const struct client_cq *cq; /* its CQ, while it is kept from the program */
	uint64_t until_ns;
} late = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Opened each time: a program that closes all descriptors would close this one too, and then use its number. */
static int
log_open(void)
{
	return open(faults.log, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Tell the user, and who reads the log. */
static void
report(const struct fault *f, const char *what)
{
	int before = errno, fd, n;
	char line[128];

	client_complain(CLIENT_FAULTS_VARIABLE ": %s=%" PRIu64 ": %s", f->name, f->at, what);
	if (faults.log[0]) {
		n = snprintf(line, sizeof(line), "%d %s %" PRIu64 "\n", (int)getpid(), f->name, f->at);
		fd = log_open();
		if (fd < 0 || write(fd, line, n) != n)
			client_complain("%s: %s", faults.log, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	errno = before;
}

/* @return true, once, when number @p n has come. */
static bool
take(struct fault *f, uint64_t n)
{
	return n >= f->at && atomic_load(&f->pending) && atomic_exchange(&f->pending, false);
}

static uint64_t
next_send(void)
{
	return atomic_load(&faults.sends) + 1;
}

bool
client_faults_reg(void)
{
	if (!take(&faults.reg_fail, atomic_fetch_add(&faults.regs, 1) + 1))
		return false;
	report(&faults.reg_fail, "this registration of memory fails with ENOMEM");
	return true;
}

/* ---- qp-error ---- */

/* @return true if the completion of the WR that was posted last is in the CQ. */
static bool
last_completed(struct client_qp *qp, struct client_cq *cq)
{
	uint16_t last = (uint16_t)(qp->sq.counter - 1);
	union ring_cqe_ctl ctl;
	bool found = false;

	client_cq_lock(cq);
	for (uint32_t i = cq->ring.counter; !found && ring_cq_ready(&cq->ring, i, &ctl); i++) {
		const struct ring_cqe *e = ring_slot(&cq->ring, i);

		found = e->qpn == qp->qp.qp_base.qp_num && !ctl.is_recv && !ctl.dead && ctl.wqe_counter == last;
	}
	client_cq_unlock(cq);
	return found;
}

/*
 * Which of the WRs that were posted before still complete well would depend on time. So wait for them, unless the last one
 * has no completion to wait for.
 */
static void
settle(struct client_qp *qp)
{
	uint64_t end_ns = client_now_ns() + SETTLE_NS;

	while (atomic_load(&qp->sq_tail) != qp->sq.counter && !last_completed(qp, to_cq(qp->qp.qp_base.send_cq)) &&
	       client_now_ns() < end_ns)
		usleep(100);
}

static void
qp_error_at(struct client_qp *qp, uint64_t n)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	/* In another state posting fails, and nothing is counted. */
	if (atomic_load_explicit(&qp->shared->state, memory_order_relaxed) != UROCE_QPS_RTS || !take(&faults.qp_error, n))
		return;
	report(&faults.qp_error, "the QP goes to ERR before this work request is posted");
	settle(qp);
	ibv_modify_qp(&qp->qp.qp_base, &attr, IBV_QP_STATE);
}

/* ---- device-fatal ---- */

static void
device_fatal_at(struct client_qp *qp, uint64_t n)
{
	struct client_ctx *ctx = to_ctx(qp->qp.qp_base.context);
	struct pollfd p = { .fd = ctx->v.context.async_fd, .events = POLLRDHUP };

	if (atomic_load_explicit(&qp->shared->state, memory_order_relaxed) != UROCE_QPS_RTS || !take(&faults.device_fatal, n))
		return;
	report(&faults.device_fatal, "the device goes before this work request is posted");
	settle(qp);
	/* As if the daemon had ended: it ends the session. What is posted from now on must not be executed, so wait for that. */
	shutdown(ctx->sock, SHUT_RDWR);
	while (poll(&p, 1, SESSION_END_MS) < 0 && errno == EINTR)
		;
}

/* ---- send-error ---- */

static bool
send_error_at(const struct client_qp *qp, uint32_t opcode, uint64_t n)
{
	return opcode < UROCE_WR_OPS && (1u << opcode & OPS_WITH_LKEY) && qp->cap.max_send_sge && take(&faults.send_error, n);
}

/* @p first is the WR's first SGE, or NULL. A key of nothing isn't looked at. */
static struct ring_sge
invalid_sge(const struct ring_sge *first)
{
	return (struct ring_sge){
		.addr = first ? first->addr : 0,
		.length = first && first->length ? first->length : 1,
		.lkey = INVALID_LKEY,
	};
}

static void
report_send_error(void)
{
	report(&faults.send_error, "this work request is posted with an invalid lkey");
}

static int
post_spoiled(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ring_sge bad_sge = invalid_sge(wr->num_sge > 0 ? (const struct ring_sge *)wr->sg_list : NULL);
	struct ibv_sge sge = { bad_sge.addr, bad_sge.length, bad_sge.lkey };
	struct ibv_send_wr *bad;
	int err;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags &= ~(unsigned int)IBV_SEND_INLINE;
	err = client_post_send(qp, wr, &bad);
	if (err)
		/* Not posted, for want of room: the next one is it. */
		atomic_store(&faults.send_error.pending, true);
	else
		report_send_error();
	return err;
}

/* ---- Posting ---- */

static int
post_one(struct ibv_qp *ibqp, const struct ibv_send_wr *wr)
{
	struct client_qp *qp = to_qp(ibqp);
	struct ibv_send_wr one = *wr, *bad;
	uint64_t n = next_send();
	int err;

	one.next = NULL;
	qp_error_at(qp, n);
	device_fatal_at(qp, n);
	err = send_error_at(qp, one.opcode, n) ? post_spoiled(ibqp, &one) : client_post_send(ibqp, &one, &bad);
	if (!err)
		atomic_fetch_add(&faults.sends, 1);
	return err;
}

static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	if (!atomic_load(&faults.send_error.pending) && !atomic_load(&faults.qp_error.pending) && !atomic_load(&faults.device_fatal.pending))
		return client_post_send(qp, wr, bad);
	for (; wr; wr = wr->next) {
		err = post_one(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	return err;
}

/* The slot is as ibv_wr_*() left it, not posted yet. */
static void
spoil_slot(struct ring_sq_wqe *w, union ring_sq_ctl ctl)
{
	struct ring_sge *sge = wqe_sges(w, ctl.opcode);
	bool has_sge = !(ctl.flags & UROCE_SEND_INLINE) && ctl.count;

	*sge = invalid_sge(has_sge ? sge : NULL);
	ctl.count = 1;
	ctl.flags &= ~UROCE_SEND_INLINE;
	atomic_store_explicit(&w->ctl, ctl.word, memory_order_relaxed);
	report_send_error();
}

static int
wr_complete(struct ibv_qp_ex *ibqp)
{
	struct client_qp *qp = (struct client_qp *)ibqp;

	client_wr_close(qp);
	for (uint32_t i = qp->sq.counter; !qp->wr_err && i != qp->wr_next; i++) {
		struct ring_sq_wqe *w = ring_slot(&qp->sq, i);
		union ring_sq_ctl ctl = { .word = atomic_load_explicit(&w->ctl, memory_order_relaxed) };
		uint64_t n = next_send();

		if ((atomic_load(&faults.qp_error.pending) && n >= faults.qp_error.at) ||
		    (atomic_load(&faults.device_fatal.pending) && n >= faults.device_fatal.at)) {
			client_wr_publish(qp, i);
			qp_error_at(qp, n);
			device_fatal_at(qp, n);
		}
		if (send_error_at(qp, ctl.opcode, n))
			spoil_slot(w, ctl);
		atomic_fetch_add(&faults.sends, 1);
	}
	return client_wr_complete(ibqp);
}

void
client_faults_builders(struct client_qp *qp)
{
	qp->qp.wr_complete = wr_complete;
}

/* ---- recv-error ---- */

/* Make @p wr one with an invalid lkey, and as long as it was: a message that fits must not find it too short. */
static void
spoil_recv(struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	*sge = (struct ibv_sge){
		.addr = wr->num_sge > 0 ? wr->sg_list[0].addr : 0,
		.length = length > UINT32_MAX ? UINT32_MAX : length ? (uint32_t)length : 1,
		.lkey = INVALID_LKEY,
	};
	wr->sg_list = sge;
	wr->num_sge = 1;
}

/* @param qp  NULL: it is for the SRQ. */
static int
post_recv_one(struct ibv_qp *qp, struct ibv_srq *srq, const struct ibv_recv_wr *wr)
{
	uint32_t max_sge = qp ? to_qp(qp)->cap.max_recv_sge : to_srq(srq)->max_sge;
	bool spoilt = wr->num_sge >= 0 && max_sge && take(&faults.recv_error, atomic_load(&faults.recvs) + 1);
	struct ibv_recv_wr one = *wr, *bad;
	struct ibv_sge sge;
	int err;

	one.next = NULL;
	/* Not one that is refused for what it is. */
	if (spoilt && (uint32_t)wr->num_sge <= max_sge)
		spoil_recv(&one, &sge);
	err = qp ? client_post_recv(qp, &one, &bad) : client_post_srq_recv(srq, &one, &bad);
	if (!err)
		atomic_fetch_add(&faults.recvs, 1);
	if (spoilt && err)
		atomic_store(&faults.recv_error.pending, true);
	else if (spoilt)
		report(&faults.recv_error, "this receive is posted with an invalid lkey");
	return err;
}

static int
post_recvs(struct ibv_qp *qp, struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = 0;

	for (; wr; wr = wr->next) {
		err = post_recv_one(qp, srq, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	return err;
}

static int
post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return atomic_load(&faults.recv_error.pending) ? post_recvs(qp, NULL, wr, bad) : client_post_recv(qp, wr, bad);
}

static int
post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return atomic_load(&faults.recv_error.pending) ? post_recvs(NULL, srq, wr, bad) : client_post_srq_recv(srq, wr, bad);
}

/* ---- late-completion ---- */

/* @return how many completions wait to be polled, at most @p most. */
static uint64_t
cq_waiting(struct client_cq *cq, uint64_t most)
{
	union ring_cqe_ctl ctl;
	uint64_t n = 0;

	client_cq_lock(cq);
	for (uint32_t i = cq->ring.counter; n < most && ring_cq_ready(&cq->ring, i, &ctl); i++)
		n += !ctl.dead;
	client_cq_unlock(cq);
	return n;
}

/* @return how many completions come before the late one. */
static uint64_t
before_late(void)
{
	uint64_t polled = atomic_load(&faults.completions);

	return polled < faults.late_completion.at ? faults.late_completion.at - 1 - polled : 0;
}

/* late.mutex held. */
static void
late_begin(const struct client_cq *cq)
{
	late.cq = cq;
	late.until_ns = client_now_ns() + CLIENT_FAULTS_LATE_NS;
	report(&faults.late_completion, "this completion is 100 ms late");
}

/*
 * @param peek  The CQ's lock is free.
 * @return how many of @p n completions the program may have now.
 */
static int
late_allows(struct client_cq *cq, int n, bool peek)
{
	pthread_mutex_lock(&late.mutex);
	if (late.cq == cq) {
		if (client_now_ns() < late.until_ns) {
			n = 0;
		} else {
			late.cq = NULL;
			atomic_store(&faults.late_completion.pending, false);
		}
	} else if (!late.cq && atomic_load(&faults.late_completion.pending) && n > 0 && before_late() < (uint64_t)n) {
		n = (int)before_late();
		if (n == 0 && peek && cq_waiting(cq, 1))
			late_begin(cq);
	}
	pthread_mutex_unlock(&late.mutex);
	return n;
}

static int
poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct client_cq *cq = to_cq(ibcq);
	int n;

	if (!atomic_load(&faults.late_completion.pending))
		return client_poll_cq(ibcq, num, wc);
	n = late_allows(cq, num, true);
	if (n == 0 && num > 0)
		return client_cq_empty(cq) ? -1 : 0;
	n = client_poll_cq(ibcq, n, wc);
	if (n > 0)
		atomic_fetch_add(&faults.completions, (uint64_t)n);
	return n;
}

/*
 * A CQ raises events for completions that come after it was armed. The late one is there already, so arming takes as long as it is late:
 * whoever polls after that, as one must, finds it.
 */
static int
req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct client_cq *cq = to_cq(ibcq);
	uint64_t until_ns = 0;

	if (atomic_load(&faults.late_completion.pending)) {
		pthread_mutex_lock(&late.mutex);
		if (!late.cq && atomic_load(&faults.late_completion.pending) && cq_waiting(cq, before_late() + 1) > before_late())
			late_begin(cq);
		if (late.cq == cq)
			until_ns = late.until_ns;
		pthread_mutex_unlock(&late.mutex);
	}
	while (client_now_ns() < until_ns)
		usleep(1000);
	return client_req_notify_cq(ibcq, solicited_only);
}

/* The functions of extended CQs without faults. */
static int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
static int (*next_poll)(struct ibv_cq_ex *cq);

static int
late_start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct client_cq *cq = (struct client_cq *)ibcq;
	int err;

	if (!atomic_load(&faults.late_completion.pending))
		return start_poll(ibcq, attr);
	if (!attr->comp_mask && late_allows(cq, 1, true) == 0)
		return client_cq_empty(cq) ? EIO : ENOENT;
	err = start_poll(ibcq, attr);
	if (!err)
		atomic_fetch_add(&faults.completions, 1);
	return err;
}

static int
late_next_poll(struct ibv_cq_ex *ibcq)
{
	int err;

	if (!atomic_load(&faults.late_completion.pending))
		return next_poll(ibcq);
	/* It begins to be late when the program polls anew. */
	if (late_allows((struct client_cq *)ibcq, 1, false) == 0)
		return ENOENT;
	err = next_poll(ibcq);
	if (!err)
		atomic_fetch_add(&faults.completions, 1);
	return err;
}

void
client_faults_cq(struct ibv_cq_ex *cq)
{
	start_poll = cq->start_poll;
	next_poll = cq->next_poll;
	cq->start_poll = late_start_poll;
	cq->next_poll = late_next_poll;
}

/* ---- Beginning ---- */

/* Begin to count, in the process or the child of a fork. */
static void
count_from_zero(void)
{
	struct fault *const all[] = { &faults.reg_fail, &faults.send_error, &faults.recv_error, &faults.qp_error, &faults.device_fatal,
				      &faults.late_completion };

	atomic_store(&faults.regs, 0);
	atomic_store(&faults.sends, 0);
	atomic_store(&faults.recvs, 0);
	atomic_store(&faults.completions, 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		atomic_store(&all[i]->pending, all[i]->at != 0);
	late.cq = NULL;
}

static void
fault_set(struct fault *f, const char *name, uint64_t at)
{
	f->name = name;
	f->at = at;
}

void
client_faults_begin(const struct client_fault_plan *plan)
{
	faults.wanted = true;
	faults.err = 0;
	fault_set(&faults.reg_fail, "reg-fail", plan->reg_fail);
	fault_set(&faults.send_error, "send-error", plan->send_error);
	fault_set(&faults.recv_error, "recv-error", plan->recv_error);
	fault_set(&faults.qp_error, "qp-error", plan->qp_error);
	fault_set(&faults.device_fatal, "device-fatal", plan->device_fatal);
	fault_set(&faults.late_completion, "late-completion", plan->late_completion);
	count_from_zero();
	strlcpy(faults.log, plan->log, sizeof(faults.log));
}

static void
read_variable(void)
{
	const char *text = secure_getenv(CLIENT_FAULTS_VARIABLE);
	struct client_fault_plan plan;
	char err[512];
	int fd;

	if (!text)
		return;
	faults.err = client_faults_parse(text, &plan, err, sizeof(err));
	if (faults.err) {
		client_complain(CLIENT_FAULTS_VARIABLE ": %s", err);
		return;
	}
	client_faults_begin(&plan);
	if (!faults.log[0])
		return;
	fd = log_open();
	if (fd < 0) {
		faults.err = EINVAL;
		client_complain(CLIENT_FAULTS_VARIABLE ": log=%s: %s; give a file that the program may write", faults.log, strerror(errno));
	} else {
		close(fd);
	}
}

int
client_faults_attach(struct client_ctx *ctx)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_variable);
	if (faults.err || !faults.wanted)
		return faults.err;
	ctx->faults = true;
	ctx->v.context.ops.post_send = post_send;
	ctx->v.context.ops.post_recv = post_recv;
	ctx->v.context.ops.post_srq_recv = post_srq_recv;
	ctx->v.context.ops.poll_cq = poll_cq;
	ctx->v.context.ops.req_notify_cq = req_notify_cq;
	return 0;
}

void
client_faults_fork_child(void)
{
	/* Another thread of the parent may have had it. */
	pthread_mutex_init(&late.mutex, NULL);
	count_from_zero();
}
