/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of programs: receiving, checking, calling their handlers, replying. */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_common.h>

#include "control/cma/cma_priv.h"
#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/core/settle_priv.h"
#include "control/loop_priv.h"
#include "control/memory/questions_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_device_priv.h"
#include "control/obj/obj_mr_priv.h"
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"

/** A request and its handler. */
struct op {
	const char *name;
	op_fn *fn;
	bool device; /**< needs an open device */
	uint8_t max_fds;
	bool about;    /**< it is about an object, whose handle is the first field of the request */
	enum obj_type type;
	bool reads; /**< it changes nothing */
	bool wants_device; /**< it makes something of the device, which must be there */
	bool takes_away; /**< afterwards the program may use memory for something else: core/settle_priv.h */
};
#define ABOUT(type_) .about = true, .type = (type_)

/** Begin to hand all programs to another daemon, which asks for it. The host answers on the session's socket, once it can. */
static int
op_hand_over(struct session *s, struct request *r)
{
	const struct control_setup *setup = &s->control->s;
	int rc;

	if (s->uid != 0 && s->uid != geteuid())
		return req_fail(r, EPERM, "only root, or the daemon's own user, can take its programs over");
	if (setup->hand_over == NULL)
		return req_fail(r, EOPNOTSUPP, "this daemon can't hand its programs over: it is part of an application that doesn't (uroce_params.asked_for)");
	rc = setup->hand_over(setup->hand_over_arg, s->sock.fd);
	if (rc != 0)
		return req_fail(r, rc, "its programs are being handed over already, or it has no descriptors left");
	s->asks_handover = true;
	return EINPROGRESS;
}

/* find_object() reads the handle from the same offset in every request about an object. */
#define BEGINS(member) static_assert(offsetof(struct ctl_req, member) == offsetof(struct ctl_req, handle.handle), #member)
BEGINS(cq_resize.handle);
BEGINS(cq_modify.handle);
BEGINS(srq_modify.handle);
BEGINS(qp_modify.handle);
BEGINS(cm_destroy.id);
BEGINS(cm_bind.id);
BEGINS(cm_resolve_addr.id);
BEGINS(cm_resolve_route.id);
BEGINS(cm_listen.id);
BEGINS(cm_connect.id);
BEGINS(cm_disconnect.id);
BEGINS(cm_qp_attr.id);
BEGINS(cm_option.id);
BEGINS(cm_join.id);
#undef BEGINS

static const struct op ops[CTL_OPS] = {
	[CTL_HELLO] = { "HELLO", op_hello, false, 0 },
	[CTL_MEMORY] = { "MEMORY", op_memory, false, 2 },
	[CTL_DEVICE_GET] = { "DEVICE_GET", op_device_get, false, 0 },
	[CTL_DEVICE_OPEN] = { "DEVICE_OPEN", op_device_open, false, 0 },
	[CTL_DEVICE_QUERY] = { "DEVICE_QUERY", op_device_query, true, 0 },
	[CTL_PORT_QUERY] = { "PORT_QUERY", op_port_query, true, 0 },
	[CTL_GID_TABLE] = { "GID_TABLE", op_gid_table, true, 0 },
	[CTL_PD_ALLOC] = { "PD_ALLOC", op_pd_alloc, true, 0 },
	[CTL_PD_FREE] = { "PD_FREE", op_pd_free, true, 0, ABOUT(OBJ_PD) },
	[CTL_MR_REG] = { "MR_REG", op_mr_reg, true, 0, .wants_device = true, .takes_away = true /* with replace */ },
	[CTL_MR_SEGS] = { "MR_SEGS", op_mr_segs, true, 0 },
	[CTL_MR_DEREG] = { "MR_DEREG", op_mr_dereg, true, 0, ABOUT(OBJ_MR), .takes_away = true },
	[CTL_CQ_CREATE] = { "CQ_CREATE", op_cq_create, true, 0, .wants_device = true },
	[CTL_CQ_RESIZE] = { "CQ_RESIZE", op_cq_resize, true, 0, ABOUT(OBJ_CQ) },
	[CTL_CQ_MODIFY] = { "CQ_MODIFY", op_cq_modify, true, 0, ABOUT(OBJ_CQ) },
	[CTL_CQ_DESTROY] = { "CQ_DESTROY", op_cq_destroy, true, 0, ABOUT(OBJ_CQ) },
	[CTL_SRQ_CREATE] = { "SRQ_CREATE", op_srq_create, true, 0, .wants_device = true },
	[CTL_SRQ_MODIFY] = { "SRQ_MODIFY", op_srq_modify, true, 0, ABOUT(OBJ_SRQ) },
	[CTL_SRQ_QUERY] = { "SRQ_QUERY", op_srq_query, true, 0, ABOUT(OBJ_SRQ), .reads = true },
	[CTL_SRQ_DESTROY] = { "SRQ_DESTROY", op_srq_destroy, true, 0, ABOUT(OBJ_SRQ) },
	[CTL_QP_CREATE] = { "QP_CREATE", op_qp_create, true, 0, .wants_device = true },
	[CTL_QP_MODIFY] = { "QP_MODIFY", op_qp_modify, true, 0, ABOUT(OBJ_QP), .wants_device = true, .takes_away = true /* RESET */ },
	[CTL_QP_QUERY] = { "QP_QUERY", op_qp_query, true, 0, ABOUT(OBJ_QP), .reads = true },
	[CTL_QP_DESTROY] = { "QP_DESTROY", op_qp_destroy, true, 0, ABOUT(OBJ_QP), .takes_away = true },
	[CTL_AH_CREATE] = { "AH_CREATE", op_ah_create, true, 0, .wants_device = true },
	[CTL_AH_DESTROY] = { "AH_DESTROY", op_ah_destroy, true, 0 },
	[CTL_MCAST_ATTACH] = { "MCAST_ATTACH", op_mcast_attach, true, 0, .wants_device = true },
	[CTL_MCAST_DETACH] = { "MCAST_DETACH", op_mcast_detach, true, 0 },
	[CTL_MW_ALLOC] = { "MW_ALLOC", op_mw_alloc, true, 0 },
	[CTL_MW_FREE] = { "MW_FREE", op_mw_free, true, 0, ABOUT(OBJ_MW) },
	[CTL_MR_NULL] = { "MR_NULL", op_mr_null, true, 0, ABOUT(OBJ_PD) },
	[CTL_DM_ALLOC] = { "DM_ALLOC", op_dm_alloc, true, 0 },
	[CTL_DM_FREE] = { "DM_FREE", op_dm_free, true, 0, ABOUT(OBJ_DM) },
	[CTL_DM_REG] = { "DM_REG", op_dm_reg, true, 0 },
	[CTL_XRCD_OPEN] = { "XRCD_OPEN", op_xrcd_open, true, 1 },
	[CTL_XRCD_CLOSE] = { "XRCD_CLOSE", op_xrcd_close, true, 0, ABOUT(OBJ_XRCD) },
	[CTL_QP_OPEN] = { "QP_OPEN", op_qp_open, true, 0, .wants_device = true },
	[CTL_CHANNEL_CREATE] = { "CHANNEL_CREATE", op_channel_create, true, 0 },
	[CTL_CHANNEL_DESTROY] = { "CHANNEL_DESTROY", op_channel_destroy, true, 0, ABOUT(OBJ_CHANNEL) },
	[CTL_CM_OPEN] = { "CM_OPEN", op_cm_open, false, 0 },
	[CTL_CM_CREATE_ID] = { "CM_CREATE_ID", op_cm_create_id, false, 0 },
	[CTL_CM_DESTROY_ID] = { "CM_DESTROY_ID", op_cm_destroy_id, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_BIND] = { "CM_BIND", op_cm_bind, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_RESOLVE_ADDR] = { "CM_RESOLVE_ADDR", op_cm_resolve_addr, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_RESOLVE_ROUTE] = { "CM_RESOLVE_ROUTE", op_cm_resolve_route, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_QUERY] = { "CM_QUERY", op_cm_query, false, 0, ABOUT(OBJ_CM_ID), .reads = true },
	[CTL_CM_LISTEN] = { "CM_LISTEN", op_cm_listen, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_CONNECT] = { "CM_CONNECT", op_cm_connect, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_ACCEPT] = { "CM_ACCEPT", op_cm_accept, false, 0 },
	[CTL_CM_REJECT] = { "CM_REJECT", op_cm_reject, false, 0 },
	[CTL_CM_ESTABLISH] = { "CM_ESTABLISH", op_cm_establish, false, 0 },
	[CTL_CM_DISCONNECT] = { "CM_DISCONNECT", op_cm_disconnect, false, 0 },
	[CTL_CM_QP_ATTR] = { "CM_QP_ATTR", op_cm_qp_attr, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_SET_OPTION] = { "CM_SET_OPTION", op_cm_set_option, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_JOIN] = { "CM_JOIN", op_cm_join, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_LEAVE] = { "CM_LEAVE", op_cm_leave, false, 0, ABOUT(OBJ_CM_GROUP) },
	[CTL_CM_MIGRATE] = { "CM_MIGRATE", op_cm_migrate, false, 0 },
	[CTL_HAND_OVER] = { "HAND_OVER", op_hand_over, false, 0 },
	[CTL_DEVICE_IMPORT] = { "DEVICE_IMPORT", op_device_import, false, 1 },
	[CTL_PD_IMPORT] = { "PD_IMPORT", op_pd_import, true, 0, .wants_device = true },
	[CTL_MR_IMPORT] = { "MR_IMPORT", op_mr_import, true, 0, .wants_device = true },
	[CTL_CM_ACCEPT_QP] = { "CM_ACCEPT_QP", op_cm_accept_qp, false, 0, ABOUT(OBJ_CM_ID) },
	[CTL_CM_DISCONNECT_QP] = { "CM_DISCONNECT_QP", op_cm_disconnect_qp, false, 0, ABOUT(OBJ_CM_ID) },
};

/** Check the format of a request of @p n bytes. @return 0, EINVAL, or EPROTO: another version. */
static int
check_form(struct session *s, struct request *r, size_t n, bool cut)
{
	const struct ctl_req *q = r->req;
	size_t want = CTL_REQ_BYTES;
	uint32_t in_msg = 0;

	if (n < offsetof(struct ctl_req, hello) + sizeof(uint32_t) || q->magic != CTL_MAGIC)
		return req_fail(r, EINVAL, "not a request of uroce's control protocol");
	/* This check comes before that of the size, since requests of another version may have another size. */
	if (q->op == CTL_HELLO && q->hello.abi_version != UROCE_ABI_VERSION)
		return EPROTO;
	if (cut || n < CTL_REQ_BYTES)
		return req_fail(r, EINVAL, "request of %zu bytes: must be %zu and the segments", n, CTL_REQ_BYTES);
	if (q->op >= CTL_OPS || ops[q->op].fn == NULL)
		return req_fail(r, EINVAL, "unknown request %u", q->op);
	if (q->op == CTL_MR_REG)
		in_msg = q->mr_reg.nb_in_msg;
	else if (q->op == CTL_MR_SEGS)
		in_msg = q->mr_segs.nb_in_msg;
	if (in_msg > CTL_SEGS_PER_MSG)
		return req_fail(r, EINVAL, "%s with %u segments: must be at most %u", ops[q->op].name, in_msg,
				CTL_SEGS_PER_MSG);
	want += in_msg * sizeof(struct ctl_seg);
	if (n != want)
		return req_fail(r, EINVAL, "%s of %zu bytes: must be %zu", ops[q->op].name, n, want);
	r->segs = (const void *)((const char *)q + CTL_REQ_BYTES);
	r->nb_segs = in_msg;
	if (r->nb_fds > ops[q->op].max_fds)
		return req_fail(r, EINVAL, "%s with %u descriptors: at most %u", ops[q->op].name, r->nb_fds,
				ops[q->op].max_fds);
	if (!s->hello && q->op != CTL_HELLO)
		return req_fail(r, EINVAL, "%s before HELLO", ops[q->op].name);
	if (ops[q->op].device && s->port == NULL)
		return req_fail(r, EINVAL, "%s before DEVICE_OPEN", ops[q->op].name);
	if (ops[q->op].wants_device && s->device_gone)
		return req_fail(r, EIO, "%s: the device has gone (IBV_EVENT_DEVICE_FATAL); close it, and open it again when it is back", ops[q->op].name);
	return 0;
}

/** Find the object that the request is about, if there is one. */
static int
find_object(struct session *s, struct request *r)
{
	const struct op *op = &ops[r->req->op];
	uint32_t handle = r->req->handle.handle;

	if (!op->about)
		return 0;
	r->obj = op->type == OBJ_CM_ID ? cma_id_get(s, handle, r) : obj_get(s, op->type, handle, r);
	return r->obj != NULL ? 0 : EINVAL;
}

/** What the request was about has changed, if it is still there. */
static void
touch(struct session *s, const struct op *op, uint32_t handle)
{
	struct obj *o = handles_get(&s->tab[op->type], handle);

	if (o != NULL && !op->reads)
		saved_touch(s->control, o->saved);
}

static settle_again_fn handle_again;

/** Handle a request that is well formed. @return the status of the reply; EINPROGRESS: it is sent later. */
static int
perform(struct session *s, struct request *r)
{
	int rc = find_object(s, r);

	if (rc == 0 && ops[r->req->op].takes_away && ops[r->req->op].about && !settle_before(s) && settle_again(s, r, handle_again))
		return EINPROGRESS;
	if (rc == 0)
		rc = ops[r->req->op].fn(s, r);
	if (rc == 0 && ops[r->req->op].about)
		touch(s, &ops[r->req->op], r->req->handle.handle);
	if (rc == EALREADY)
		rc = settle_again(s, r, handle_again) ? EINPROGRESS : req_fail(r, ENOMEM, "no memory to wait for an engine");
	else if (rc == 0 && ops[r->req->op].takes_away && settle_later(s, r))
		rc = EINPROGRESS;
	return rc;
}

/** [settle_again_fn] */
static void
handle_again(struct session *s, struct request *r)
{
	uint64_t since_ns = control_now_ns();
	int rc;

	serving_session(&s->control->serving, s, ops[r->req->op].name, since_ns);
	rc = perform(s, r);
	if (rc != EINPROGRESS && !s->closing)
		session_reply(s, r, rc);
	serving_turn(&s->control->serving, "other work", control_now_ns());
	session_took(s, since_ns);
}

/**
 * Take the descriptors of a message.
 * @return 0; EINVAL: there are more than any request has; EMFILE: we have no room for them. The request has failed then.
 */
static int
take_fds(struct session *s, struct msghdr *msg, struct request *r)
{
	int fds[CLOSER_MESSAGE_FDS];
	unsigned int i, n = closer_message_fds(msg, fds);

	r->nb_fds = RTE_MIN(n, CLOSER_MESSAGE_FDS - 1u);
	memcpy(r->fds, fds, r->nb_fds * sizeof(int));
	for (i = r->nb_fds; i < n; i++)
		closer_close(fds[i], s->user->uid);
	if (n == CLOSER_MESSAGE_FDS)
		return req_fail(r, EINVAL, "more than %d descriptors in one request", CLOSER_MESSAGE_FDS - 1);
	if (msg->msg_flags & MSG_CTRUNC)
		return req_fail(r, EMFILE, "uroced has no descriptors left; raise its limit (ulimit -n, LimitNOFILE=)");
	return 0;
}

static void
handle_request(struct session *s, struct msghdr *msg, size_t n)
{
	struct request r = { .req = (const void *)s->control->rx };
	int rc = take_fds(s, msg, &r);
	bool taken = rc == 0;

	/* Only with descriptors of our own to all of the message's files can it be dropped without closing one of them. */
	s->queued = taken;
	/* A daemon that comes after a crash finds a request that has no answer in the socket. */
	if (!saving_is_on(&s->control->saving))
		session_consume(s);
	if (rc == 0)
		rc = check_form(s, &r, n, msg->msg_flags & MSG_TRUNC);
	if (rc == 0 && session_answer_again(s, r.req))
		rc = EINPROGRESS;
	else if (rc == 0) {
		rc = perform(s, &r);
	} else if (rc == EPROTO) {
		r.rsp.hello.abi_version = UROCE_ABI_VERSION;
		snprintf(r.rsp.hello.version, sizeof(r.rsp.hello.version), "%s", UROCE_VERSION);
	}
	if (rc != EINPROGRESS && !s->closing)
		session_reply(s, &r, rc);
	/* It has no answer of ours, or descriptors that only we may close. */
	if (session_is_settled(s) || r.nb_fds > 0)
		session_consume(s);
	for (uint32_t i = 0; i < r.nb_fds; i++) {
		if (r.fds[i] >= 0)
			closer_close(r.fds[i], s->user->uid);
	}
	if (!taken && !s->closing)
		session_close(s, "it sent more descriptors than could be taken");
}

/** @return the name of the request in a message. */
static const char *
name_of(const void *message, size_t n)
{
	const struct ctl_req *q = message;

	return n >= CTL_REQ_BYTES && q->op < CTL_OPS && ops[q->op].name != NULL ? ops[q->op].name : "a request";
}

/** Handle a request, and charge the session with the time. */
static void
handle_timed(struct session *s, struct msghdr *msg, size_t n)
{
	uint64_t since_ns = control_now_ns();

	serving_session(&s->control->serving, s, name_of(s->control->rx, n), since_ns);
	handle_request(s, msg, n);
	serving_turn(&s->control->serving, "other work", control_now_ns());
	session_took(s, since_ns);
}

/**
 * @return true if the request of @p n bytes may take long, and should wait until others had their turn. It stays in the
 * socket, which epoll reports again.
 */
static bool
put_off(const struct session *s, const struct msghdr *msg, size_t n)
{
	const struct ctl_req *q = (const void *)s->control->rx;

	if (n < CTL_REQ_BYTES || msg->msg_controllen > 0)
		return false;
	return ((q->op == CTL_MR_REG && q->mr_reg.nb_segs > CONTROL_SMALL_MR) || q->op == CTL_MR_DEREG) &&
	       control_turn_is_long(s->control);
}

/** @return true if earlier requests of the session took so long that it has to wait for later turns. */
static bool
session_owes(struct session *s)
{
	uint64_t turns = s->control->turns - s->busy_turn;

	s->busy_turn = s->control->turns;
	s->busy_ns -= RTE_MIN(s->busy_ns, turns * CONTROL_SESSION_NS);
	return s->busy_ns != 0;
}

static void
on_session(struct watch *w, uint32_t events)
{
	struct session *s = container_of(w, struct session, sock);
	/*
	 * A look at the message, with room for one descriptor more than any request has. The kernel gives us that many and
	 * keeps the message with the rest, instead of closing what doesn't fit on this thread, which may take long.
	 */
	char space[CMSG_SPACE(CLOSER_MESSAGE_FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = s->control->rx, .iov_len = CONTROL_RX_BYTES };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = space,
		/* Not the space: what it is rounded up by is room for more descriptors. */
		.msg_controllen = CMSG_LEN(CLOSER_MESSAGE_FDS * sizeof(int)),
	};
	ssize_t n;

	if (s->closing)
		return;
	if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) {
		session_close(s, NULL);
		return;
	}
	if (session_owes(s))
		return;
	n = recvmsg(s->sock.fd, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0 && put_off(s, &msg, (size_t)n))
		return;
	if (n > 0)
		handle_timed(s, &msg, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		session_close(s, NULL);
}

/** What the program has mapped is known, or nobody can find out. */
static void
on_process(struct session *s, struct shared_answer *a)
{
	if (a->rc == 0 && a->dir >= 0 && a->maps >= 0) {
		if (s->proc_fd >= 0)
			close(s->proc_fd);
		s->proc_fd = a->dir;
		s->maps_fd = a->maps;
		saved_touch(s->control, s->record);
		a->dir = a->maps = -1;
	}
	session_pause(s, false);
}

int
dispatch_session(struct session *s)
{
	s->sock.fn = on_session;
	if (question_process(s, on_process) == EINPROGRESS)
		return control_watch(s->control, &s->sock, EPOLLRDHUP);
	return control_watch(s->control, &s->sock, EPOLLIN | EPOLLRDHUP);
}

int
dispatch_resume(struct session *s)
{
	s->sock.fn = on_session;
	return control_watch(s->control, &s->sock, EPOLLIN | EPOLLRDHUP);
}
