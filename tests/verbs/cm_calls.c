/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_cm between two ids of one program: what is refused and how, and what comes in an order that is seldom. */
#include <arpa/inet.h>
#include <infiniband/ib.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include "vt.h"

enum { PORT = 7490, EVENT_MS = 1000 * VT_SECONDS, QUIET_MS = 200, RESOLVE_MS = 2000, REJ_CONSUMER = 28 };
static const char own_address[] = "198.18.0.1";

/** An event channel and an id of it. */
struct end {
	struct rdma_event_channel *ec;
	struct rdma_cm_id *id;
};

static void
end_open(struct end *e, enum rdma_port_space ps)
{
	e->ec = rdma_create_event_channel();
	if (e->ec == NULL || rdma_create_id(e->ec, &e->id, NULL, ps) != 0)
		vt_die("rdma_create_id");
}

static void
end_close(struct end *e)
{
	if (e->id != NULL) {
		if (e->id->qp != NULL)
			rdma_destroy_qp(e->id);
		rdma_destroy_id(e->id);
	}
	rdma_destroy_event_channel(e->ec);
}

static struct sockaddr_in
own(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, own_address, &a.sin_addr);
	return a;
}

/** @return the id of the next event, which must be @p type with @p status; NULL if it isn't. */
static struct rdma_cm_id *
expect(struct end *e, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id = NULL;

	if (!vt_readable(e->ec->fd, EVENT_MS)) {
		VT_CHECK(false, "no event, but %s was to come", rdma_event_str(type));
		return NULL;
	}
	if (rdma_get_cm_event(e->ec, &event) != 0) {
		VT_CHECK(false, "rdma_get_cm_event: %s", strerror(errno));
		return NULL;
	}
	VT_CHECK(event->event == type && event->status == status, "%s, status %d, but %s with %d was to come",
		 rdma_event_str(event->event), event->status, rdma_event_str(type), status);
	if (event->event == type)
		id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static void
listener_open(struct end *e)
{
	struct sockaddr_in a = own(PORT);

	end_open(e, RDMA_PS_TCP);
	VT_OK(rdma_bind_addr(e->id, (struct sockaddr *)&a));
	VT_OK(rdma_listen(e->id, 4));
}

static void
make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	VT_OK(rdma_create_qp(id, NULL, &attr));
}

/** Up to the REQ. */
static void
client_connect(struct end *e)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct sockaddr_in a = own(PORT);

	end_open(e, RDMA_PS_TCP);
	VT_OK(rdma_resolve_addr(e->id, NULL, (struct sockaddr *)&a, RESOLVE_MS));
	expect(e, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	make_qp(e->id);
	VT_OK(rdma_resolve_route(e->id, RESOLVE_MS));
	expect(e, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	VT_OK(rdma_connect(e->id, &param));
}

/* Addresses of InfiniBand name ports of subnets, which RoCE doesn't have. */
static void
addresses_of_infiniband_are_refused(struct vt *t)
{
	struct sockaddr_ib ib = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };
	struct rdma_addrinfo hints = { .ai_flags = RAI_FAMILY, .ai_family = AF_IB, .ai_port_space = RDMA_PS_IB }, *res;
	struct sockaddr_in a = own(0);
	struct end e;

	ib.sib_addr.sib_raw[15] = 1;
	end_open(&e, RDMA_PS_IB);
	errno = 0;
	VT_CHECK(rdma_bind_addr(e.id, (struct sockaddr *)&ib) == -1 && errno == EAFNOSUPPORT, "%s", strerror(errno));
	errno = 0;
	VT_CHECK(rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&ib, RESOLVE_MS) == -1 && errno == EAFNOSUPPORT, "%s",
		 strerror(errno));
	errno = 0;
	VT_CHECK(rdma_resolve_addr(e.id, (struct sockaddr *)&ib, (struct sockaddr *)&a, RESOLVE_MS) == -1 &&
			 errno == EAFNOSUPPORT, "%s", strerror(errno));
	VT_CHECK(rdma_getaddrinfo("::1", "7", &hints, &res) != 0, "an AF_IB address was found");
	/* The id is none the worse for it. */
	VT_OK(rdma_bind_addr(e.id, (struct sockaddr *)&a));
	end_close(&e);
}

/* What comes on a QP before the RTU does says that its peer is ready (IBV_EVENT_COMM_EST). */
static void
notified_end_is_established_without_the_rtu(struct vt *t)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct end listener, client;
	struct rdma_cm_id *id;

	listener_open(&listener);
	client_connect(&client);
	id = expect(&listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (id != NULL) {
		VT_CHECK(rdma_notify(id, IBV_EVENT_COMM_EST) == -1, "a request was established");
		make_qp(id);
		VT_OK(rdma_accept(id, &param));
		/* The client has not looked at its REP, so there is no RTU. */
		VT_CHECK(!vt_readable(listener.ec->fd, QUIET_MS), "established without a reason");
		VT_CHECK(rdma_notify(id, IBV_EVENT_QP_FATAL) == -1, "any event will do");
		VT_OK(rdma_notify(id, IBV_EVENT_COMM_EST));
		expect(&listener, RDMA_CM_EVENT_ESTABLISHED, 0);
		VT_OK(rdma_notify(id, IBV_EVENT_COMM_EST));
		expect(&client, RDMA_CM_EVENT_ESTABLISHED, 0);
		/* The RTU changes nothing now. */
		VT_CHECK(!vt_readable(listener.ec->fd, QUIET_MS), "established twice");
		VT_OK(rdma_disconnect(client.id));
		expect(&listener, RDMA_CM_EVENT_DISCONNECTED, 0);
		rdma_destroy_qp(id);
		rdma_destroy_id(id);
	}
	end_close(&client);
	end_close(&listener);
}

/* Its request lies in the channel of a program that has given up its listener. */
static void
request_of_a_listener_that_is_gone_is_refused(struct vt *t)
{
	struct end listener, client, other;
	struct rdma_cm_event *event;

	listener_open(&listener);
	client_connect(&client);
	VT_CHECK(vt_readable(listener.ec->fd, EVENT_MS), "no request");
	rdma_destroy_id(listener.id);
	/* At once, not when somebody reads. */
	expect(&client, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
	/* An event that comes behind the request. */
	VT_CHECK(rdma_create_id(listener.ec, &listener.id, NULL, RDMA_PS_TCP) == 0, "%s", strerror(errno));
	other.ec = listener.ec;
	other.id = listener.id;
	struct sockaddr_in a = own(PORT);
	VT_OK(rdma_resolve_addr(other.id, NULL, (struct sockaddr *)&a, RESOLVE_MS));
	VT_CHECK(rdma_get_cm_event(listener.ec, &event) == 0, "%s", strerror(errno));
	VT_CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED, "%s came of a listener that is gone",
		 rdma_event_str(event->event));
	rdma_ack_cm_event(event);
	end_close(&client);
	end_close(&other);
}

/* ... but what the program has read is its own, with or without a listener. */
static void
request_that_was_read_outlives_its_listener(struct vt *t)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct end listener, client, late;
	struct rdma_cm_id *id;

	listener_open(&listener);
	client_connect(&client);
	id = expect(&listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	client_connect(&late);
	VT_CHECK(vt_readable(listener.ec->fd, EVENT_MS), "no second request");
	rdma_destroy_id(listener.id);
	listener.id = NULL;
	expect(&late, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
	if (id != NULL) {
		make_qp(id);
		VT_OK(rdma_accept(id, &param));
		expect(&client, RDMA_CM_EVENT_ESTABLISHED, 0);
		/* Past the record of the one that was refused. */
		expect(&listener, RDMA_CM_EVENT_ESTABLISHED, 0);
		rdma_destroy_qp(id);
		rdma_destroy_id(id);
	}
	end_close(&client);
	end_close(&late);
	end_close(&listener);
}

static void
calls_out_of_order_are_refused(struct vt *t)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct sockaddr_in a = own(PORT);
	struct end e;

	end_open(&e, RDMA_PS_TCP);
	VT_CHECK(rdma_connect(e.id, &param) == -1 && errno == EINVAL, "connect: %s", strerror(errno));
	VT_CHECK(rdma_accept(e.id, &param) == -1 && errno == EINVAL, "accept: %s", strerror(errno));
	VT_CHECK(rdma_reject(e.id, NULL, 0) == -1 && errno == EINVAL, "reject: %s", strerror(errno));
	VT_CHECK(rdma_disconnect(e.id) == -1 && errno == EINVAL, "disconnect: %s", strerror(errno));
	VT_CHECK(rdma_resolve_route(e.id, RESOLVE_MS) == -1 && errno == EINVAL, "route: %s", strerror(errno));
	VT_OK(rdma_bind_addr(e.id, (struct sockaddr *)&a));
	VT_CHECK(rdma_bind_addr(e.id, (struct sockaddr *)&a) == -1 && errno == EINVAL, "bind: %s", strerror(errno));
	VT_OK(rdma_listen(e.id, 1));
	VT_CHECK(rdma_listen(e.id, 1) == -1 && errno == EINVAL, "listen: %s", strerror(errno));
	VT_CHECK(rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&a, RESOLVE_MS) == -1 && errno == EINVAL, "resolve: %s",
		 strerror(errno));
	end_close(&e);
}

int
main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		VT_CASE(addresses_of_infiniband_are_refused),
		VT_CASE(notified_end_is_established_without_the_rtu),
		VT_CASE(request_of_a_listener_that_is_gone_is_refused),
		VT_CASE(request_that_was_read_outlives_its_listener),
		VT_CASE(calls_out_of_order_are_refused),
	};

	return vt_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
