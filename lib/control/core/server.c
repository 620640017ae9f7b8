/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: received, checked, dispatched, answered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/core/closer.h"
#include "control/cma/cma.h"
#include "control/core/control_priv.h"

/** What a request may be and who handles it. A handler returns 0, an errno value, or EINPROGRESS: it will answer later.
 */
struct op {
	const char *name;
	int (*fn)(struct session *s, struct request *r);
	bool device; /**< needs an open device */
	uint8_t max_fds;
};

static const struct op ops[CTL_OPS] = {
	[CTL_HELLO] = { "HELLO", op_hello, false, 1 },
	[CTL_DEVICE_GET] = { "DEVICE_GET", op_device_get, false, 0 },
	[CTL_DEVICE_OPEN] = { "DEVICE_OPEN", op_device_open, false, 1 },
	[CTL_DEVICE_QUERY] = { "DEVICE_QUERY", op_device_query, true, 0 },
	[CTL_PORT_QUERY] = { "PORT_QUERY", op_port_query, true, 0 },
	[CTL_GID_TABLE] = { "GID_TABLE", op_gid_table, true, 0 },
	[CTL_PD_ALLOC] = { "PD_ALLOC", op_pd_alloc, true, 0 },
	[CTL_PD_FREE] = { "PD_FREE", op_pd_free, true, 0 },
	[CTL_MR_REG] = { "MR_REG", op_mr_reg, true, 0 },
	[CTL_MR_SEGS] = { "MR_SEGS", op_mr_segs, true, 0 },
	[CTL_MR_DEREG] = { "MR_DEREG", op_mr_dereg, true, 0 },
	[CTL_CQ_CREATE] = { "CQ_CREATE", op_cq_create, true, 1 },
	[CTL_CQ_RESIZE] = { "CQ_RESIZE", op_cq_resize, true, 0 },
	[CTL_CQ_MODIFY] = { "CQ_MODIFY", op_cq_modify, true, 0 },
	[CTL_CQ_DESTROY] = { "CQ_DESTROY", op_cq_destroy, true, 0 },
	[CTL_SRQ_CREATE] = { "SRQ_CREATE", op_srq_create, true, 0 },
	[CTL_SRQ_MODIFY] = { "SRQ_MODIFY", op_srq_modify, true, 0 },
	[CTL_SRQ_QUERY] = { "SRQ_QUERY", op_srq_query, true, 0 },
	[CTL_SRQ_DESTROY] = { "SRQ_DESTROY", op_srq_destroy, true, 0 },
	[CTL_QP_CREATE] = { "QP_CREATE", op_qp_create, true, 0 },
	[CTL_QP_MODIFY] = { "QP_MODIFY", op_qp_modify, true, 0 },
	[CTL_QP_QUERY] = { "QP_QUERY", op_qp_query, true, 0 },
	[CTL_QP_DESTROY] = { "QP_DESTROY", op_qp_destroy, true, 0 },
	[CTL_AH_CREATE] = { "AH_CREATE", op_ah_create, true, 0 },
	[CTL_AH_DESTROY] = { "AH_DESTROY", op_ah_destroy, true, 0 },
	[CTL_MCAST_ATTACH] = { "MCAST_ATTACH", op_mcast_attach, true, 0 },
	[CTL_MCAST_DETACH] = { "MCAST_DETACH", op_mcast_detach, true, 0 },
	[CTL_MW_ALLOC] = { "MW_ALLOC", op_mw_alloc, true, 0 },
	[CTL_MW_FREE] = { "MW_FREE", op_mw_free, true, 0 },
	[CTL_XRCD_OPEN] = { "XRCD_OPEN", op_xrcd_open, true, 1 },
	[CTL_XRCD_CLOSE] = { "XRCD_CLOSE", op_xrcd_close, true, 0 },
	[CTL_QP_OPEN] = { "QP_OPEN", op_qp_open, true, 0 },
	[CTL_CM_OPEN] = { "CM_OPEN", op_cm_open, false, 1 },
	[CTL_CM_CREATE_ID] = { "CM_CREATE_ID", op_cm_create_id, false, 0 },
	[CTL_CM_DESTROY_ID] = { "CM_DESTROY_ID", op_cm_destroy_id, false, 0 },
	[CTL_CM_BIND] = { "CM_BIND", op_cm_bind, false, 0 },
	[CTL_CM_RESOLVE_ADDR] = { "CM_RESOLVE_ADDR", op_cm_resolve_addr, false, 0 },
	[CTL_CM_RESOLVE_ROUTE] = { "CM_RESOLVE_ROUTE", op_cm_resolve_route, false, 0 },
	[CTL_CM_QUERY] = { "CM_QUERY", op_cm_query, false, 0 },
	[CTL_CM_LISTEN] = { "CM_LISTEN", op_cm_listen, false, 0 },
	[CTL_CM_CONNECT] = { "CM_CONNECT", op_cm_connect, false, 0 },
	[CTL_CM_ACCEPT] = { "CM_ACCEPT", op_cm_accept, false, 0 },
	[CTL_CM_REJECT] = { "CM_REJECT", op_cm_reject, false, 0 },
	[CTL_CM_ESTABLISH] = { "CM_ESTABLISH", op_cm_establish, false, 0 },
	[CTL_CM_DISCONNECT] = { "CM_DISCONNECT", op_cm_disconnect, false, 0 },
	[CTL_CM_QP_ATTR] = { "CM_QP_ATTR", op_cm_qp_attr, false, 0 },
	[CTL_CM_SET_OPTION] = { "CM_SET_OPTION", op_cm_set_option, false, 0 },
	[CTL_CM_JOIN] = { "CM_JOIN", op_cm_join, false, 0 },
	[CTL_CM_LEAVE] = { "CM_LEAVE", op_cm_leave, false, 0 },
	[CTL_CM_MIGRATE] = { "CM_MIGRATE", op_cm_migrate, false, 0 },
};

int
req_fail(struct request *r, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->message, sizeof(r->message), fmt, ap);
	va_end(ap);
	return err;
}

void
req_send_fd(struct request *r, int fd, bool close_it)
{
	r->out_fds[r->rsp.nb_fds] = fd;
	r->out_close[r->rsp.nb_fds] = close_it;
	r->rsp.nb_fds++;
}

void
session_pause(struct session *s, bool pause)
{
	/* Without EPOLLIN the end of the connection still shows as EPOLLHUP or EPOLLRDHUP. */
	struct epoll_event ev = { .events = EPOLLRDHUP | (pause ? 0 : EPOLLIN), .data.ptr = &s->sock };

	epoll_ctl(s->control->epfd, EPOLL_CTL_MOD, s->sock.fd, &ev);
}

int
send_reply(int sock, const struct ctl_rsp *rsp, const int *fds, uint32_t nb_fds)
{
	char space[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)rsp, .iov_len = sizeof(*rsp) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (nb_fds > 0) {
		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(nb_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(nb_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, nb_fds * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*rsp) ? 0 : errno;
}

void
session_reply(struct session *s, struct request *r, int status)
{
	uint32_t i, nb_fds = r->rsp.nb_fds;
	int rc;

	r->rsp.magic = CTL_MAGIC;
	r->rsp.op = r->req->op;
	r->rsp.status = status;
	if (status != 0 && status != EPROTO) {
		memset(r->rsp.space, 0, sizeof(r->rsp.space));
		memcpy(r->rsp.message, r->message, sizeof(r->rsp.message));
		r->rsp.nb_fds = 0;
	}
	rc = send_reply(s->sock.fd, &r->rsp, r->out_fds, r->rsp.nb_fds);
	for (i = 0; i < nb_fds; i++) {
		if (r->out_close[i])
			close(r->out_fds[i]);
	}
	if (rc != 0)
		/* One that sends requests without reading the answers, or is gone already. */
		session_close(s, rc == EAGAIN ? "it doesn't read replies" : NULL);
	else if (status == EPROTO)
		session_close(s, "it has another version of the protocol");
}

/** Check the form of a request of @p n bytes. @return 0, EINVAL, or EPROTO: another version. */
static int
check_form(struct session *s, struct request *r, size_t n, bool cut)
{
	const struct ctl_req *q = r->req;
	size_t want = CTL_REQ_BYTES;
	uint32_t in_msg = 0;

	if (n < offsetof(struct ctl_req, hello) + sizeof(uint32_t) || q->magic != CTL_MAGIC)
		return req_fail(r, EINVAL, "not a request of uroce's control protocol");
	/* Before the size: another version's requests may have another. */
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
	return 0;
}

/** Collect the descriptors of a message. @return false: more than there may be. */
static bool
take_fds(struct msghdr *msg, struct request *r)
{
	struct cmsghdr *cmsg;
	bool fit = (msg->msg_flags & MSG_CTRUNC) == 0;
	size_t i, n;
	int fd;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg != NULL; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (r->nb_fds < CTL_MAX_FDS) {
				r->fds[r->nb_fds++] = fd;
			} else {
				closer_close(fd);
				fit = false;
			}
		}
	}
	return fit;
}

static void
handle_request(struct session *s, struct msghdr *msg, size_t n)
{
	struct request r = { .req = (const void *)s->control->rx };
	uint32_t i;
	int rc;

	if (!take_fds(msg, &r))
		rc = msg->msg_flags & MSG_CTRUNC
			     ? req_fail(&r, EMFILE,
					"uroced has no descriptors left; raise its limit (ulimit -n, LimitNOFILE=)")
			     : req_fail(&r, EINVAL, "more than %d descriptors in one request", CTL_MAX_FDS);
	else
		rc = check_form(s, &r, n, msg->msg_flags & MSG_TRUNC);
	if (rc == 0)
		rc = ops[r.req->op].fn(s, &r);
	else if (rc == EPROTO)
		r.rsp.hello.abi_version = UROCE_ABI_VERSION;
	if (rc == EPROTO)
		snprintf(r.rsp.hello.version, sizeof(r.rsp.hello.version), "%s", UROCE_VERSION);
	for (i = 0; i < r.nb_fds; i++) {
		if (r.fds[i] >= 0)
			closer_close(r.fds[i]);
	}
	if (rc != EINPROGRESS && !s->closing)
		session_reply(s, &r, rc);
}

static void
on_session(struct watch *w, uint32_t events)
{
	struct session *s = (void *)((char *)w - offsetof(struct session, sock));
	/* Room for all that may come: what doesn't fit the kernel would close on this thread, which may take long. */
	char space[CMSG_SPACE(CLOSER_MESSAGE_FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = s->control->rx, .iov_len = CONTROL_RX_BYTES };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = space,
		.msg_controllen = sizeof(space),
	};
	ssize_t n;

	if (s->closing)
		return;
	if (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) {
		session_close(s, NULL);
		return;
	}
	n = recvmsg(s->sock.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0)
		handle_request(s, &msg, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		session_close(s, NULL);
}

static void
on_kick(struct watch *w, uint32_t events)
{
	struct session *s = (void *)((char *)w - offsetof(struct session, kick));
	unsigned int i;

	/* Watched for edges and never read: the program has this open file too, and could have us wait for a value. */
	if (s->closing)
		return;
	for (i = 0; i < s->control->s.nb_engines; i++)
		engine_session_kick(s->control->s.engines[i], s->engine_sessions[i]);
}

int
session_serve(struct session *s)
{
	s->sock.fn = on_session;
	s->kick.fn = on_kick;
	return control_watch(s->control, &s->sock, EPOLLIN | EPOLLRDHUP);
}
