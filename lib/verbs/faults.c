/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors on purpose, as UROCE_FAULTS asks for them. A context that has faults gets other functions for posting, so the
 * others pay nothing. Each error is a real one: the transport finds the key invalid, or flushes what is posted.
 *
 * Everything is counted per process and happens once. A WR that couldn't be posted is not counted, since how often a
 * program tries is a matter of time.
 */
#include "verbs/client_priv.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* No MR has this key: its index is beyond any table. */
#define INVALID_LKEY UINT32_MAX
_Static_assert(INVALID_LKEY >> 8 >= UROCE_MAX_MR, "the key of an MR");

/* How long a QP may take to complete what was posted before it is put into ERR. */
#define SETTLE_NS UINT64_C(100000000)

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
	struct fault reg_fail, send_error, qp_error;
	_Atomic uint64_t regs, sends; /* so far */
	char log[PATH_MAX];
} faults;

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
	err = send_error_at(qp, one.opcode, n) ? post_spoiled(ibqp, &one) : client_post_send(ibqp, &one, &bad);
	if (!err)
		atomic_fetch_add(&faults.sends, 1);
	return err;
}

static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	if (!atomic_load(&faults.send_error.pending) && !atomic_load(&faults.qp_error.pending))
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

		if (atomic_load(&faults.qp_error.pending) && n >= faults.qp_error.at) {
			client_wr_publish(qp, i);
			qp_error_at(qp, n);
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

/* ---- Beginning ---- */

static void
fault_set(struct fault *f, const char *name, uint64_t at)
{
	f->name = name;
	f->at = at;
	atomic_store(&f->pending, at != 0);
}

void
client_faults_begin(const struct client_fault_plan *plan)
{
	faults.wanted = true;
	faults.err = 0;
	fault_set(&faults.reg_fail, "reg-fail", plan->reg_fail);
	fault_set(&faults.send_error, "send-error", plan->send_error);
	fault_set(&faults.qp_error, "qp-error", plan->qp_error);
	atomic_store(&faults.regs, 0);
	atomic_store(&faults.sends, 0);
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
	return 0;
}

void
client_faults_fork_child(void)
{
	atomic_store(&faults.regs, 0);
	atomic_store(&faults.sends, 0);
	atomic_store(&faults.reg_fail.pending, faults.reg_fail.at != 0);
	atomic_store(&faults.send_error.pending, faults.send_error.at != 0);
	atomic_store(&faults.qp_error.pending, faults.qp_error.at != 0);
}
