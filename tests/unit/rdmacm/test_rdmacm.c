/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm towards a daemon that the test plays: what another thread, which reads an event as soon as it is there, may rely on. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../verbs/fake_daemon.h"
#include "verbs/client_priv.h"

enum { PEER_PORT = 7000, OWN_PORT = 5000, CHANNELS_MAX = 512, MOVES = 100, OPS_MAX = 16, QPN = 0x123, QP_HANDLE = 7 };

static struct fake_daemon fake;
static int pipes[CHANNELS_MAX]; /* of channels, by their tokens */
static uint32_t nb_channels, next_handle;
static struct rdma_cm_id *watched;
static struct sockaddr_storage seen; /* of watched, when the request came */
static int refuse_with;
static uint32_t ops[OPS_MAX], nb_ops; /* requests about an id with a QP */
static int qp_ops_fail_with;

static void
write_event(uint64_t token, uint32_t handle, uint32_t type)
{
	struct ctl_cm_event ev = { .id = handle, .type = type, .info = { .device = UINT32_MAX } };

	assert_int_equal(write(pipes[token], &ev, sizeof(ev)), sizeof(ev));
}

static void
on_request(const struct ctl_req *req, struct ctl_rsp *rsp, int fd)
{
	switch (req->op) {
	case CTL_CM_OPEN:
		rsp->cm_open.token = nb_channels;
		pipes[nb_channels++] = fd;
		break;
	case CTL_CM_CREATE_ID:
		rsp->handle.handle = next_handle++;
		break;
	case CTL_CM_BIND:
		rsp->cm_info.local = req->cm_bind.addr;
		rsp->cm_info.local.port = OWN_PORT;
		rsp->cm_info.device = UINT32_MAX;
		break;
	case CTL_CM_RESOLVE_ADDR:
		seen = watched->route.addr.dst_storage;
		rsp->status = refuse_with;
		break;
	case CTL_CM_LISTEN:
		seen = watched->route.addr.src_storage;
		break;
	case CTL_CM_ACCEPT_QP:
		assert_int_equal(req->cm_connect.qp, QP_HANDLE);
		assert_int_equal(req->cm_connect.param.qp_num, QPN);
		rsp->status = qp_ops_fail_with;
		ops[nb_ops++ % OPS_MAX] = req->op;
		break;
	case CTL_CM_DISCONNECT_QP:
		assert_int_equal(req->cm_disconnect.qp, QP_HANDLE);
		assert_int_equal(req->cm_disconnect.qp_num, QPN);
		rsp->status = qp_ops_fail_with;
		ops[nb_ops++ % OPS_MAX] = req->op;
		break;
	case CTL_CM_ACCEPT:
	case CTL_CM_DISCONNECT:
	case CTL_CM_QP_ATTR:
		ops[nb_ops++ % OPS_MAX] = req->op;
		break;
	case CTL_CM_MIGRATE:
		/* Before the reply: somebody waits for it in the new channel, the last that was made. */
		rsp->handle.handle = next_handle++;
		write_event(nb_channels - 1, rsp->handle.handle, CTL_CM_EV_DISCONNECTED);
		break;
	default:
		break;
	}
}

static int
setup(void **state)
{
	fake_daemon_start(&fake, FAKE_HONEST);
	fake.on_request = on_request;
	return 0;
}

static struct rdma_cm_id *
make_id(struct rdma_event_channel **ec)
{
	struct rdma_cm_id *id;

	*ec = rdma_create_event_channel();
	assert_non_null(*ec);
	assert_int_equal(rdma_create_id(*ec, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static void
destination_is_written_before_it_is_asked_for(void **state)
{
	struct sockaddr_in first = { .sin_family = AF_INET, .sin_port = htons(PEER_PORT), .sin_addr = { htonl(0xc6120002) } };
	struct sockaddr_in other = first;
	struct rdma_event_channel *ec;

	watched = make_id(&ec);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(rdma_resolve_addr(watched, NULL, (struct sockaddr *)&first, 1000), 0);
	assert_memory_equal(&seen, &first, sizeof(first));
	assert_memory_equal(&watched->route.addr.dst_sin, &first, sizeof(first));
	/* What is refused changes nothing. */
	other.sin_port = htons(PEER_PORT + 1);
	refuse_with = EINVAL;
	assert_int_equal(rdma_resolve_addr(watched, NULL, (struct sockaddr *)&other, 1000), -1);
	assert_int_equal(errno, EINVAL);
	refuse_with = 0;
	assert_memory_equal(&seen, &other, sizeof(other));
	assert_memory_equal(&watched->route.addr.dst_sin, &first, sizeof(first));
	rdma_destroy_id(watched);
	rdma_destroy_event_channel(ec);
}

static void
listener_knows_its_port_before_it_listens(void **state)
{
	struct rdma_event_channel *ec;

	watched = make_id(&ec);
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(rdma_listen(watched, 1), 0);
	assert_int_equal(((struct sockaddr_in *)(void *)&seen)->sin_port, htons(OWN_PORT));
	assert_int_equal(rdma_get_src_port(watched), htons(OWN_PORT));
	rdma_destroy_id(watched);
	rdma_destroy_event_channel(ec);
}

static void *
read_one(void *arg)
{
	struct rdma_cm_event *ev;

	return rdma_get_cm_event(arg, &ev) == 0 ? ev : NULL;
}

static void
event_that_follows_a_move_at_once_is_not_lost(void **state)
{
	struct rdma_event_channel *from, *to;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	pthread_t reader;
	void *read;

	for (unsigned int i = 0; i < MOVES; i++) {
		id = make_id(&from);
		to = rdma_create_event_channel();
		assert_non_null(to);
		assert_int_equal(pthread_create(&reader, NULL, read_one, to), 0);
		assert_int_equal(rdma_migrate_id(id, to), 0);
		assert_ptr_equal(id->channel, to);
		assert_int_equal(pthread_join(reader, &read), 0);
		ev = read;
		assert_non_null(ev);
		assert_ptr_equal(ev->id, id);
		assert_int_equal(ev->event, RDMA_CM_EVENT_DISCONNECTED);
		rdma_ack_cm_event(ev);
		rdma_destroy_id(id);
		rdma_destroy_event_channel(from);
		rdma_destroy_event_channel(to);
	}
}

/* ---- QPs of ids ---- */
/* Its own requests fail: after a fork, for example. */
static struct client_ctx foreign = { .foreign = true };
static struct client_qp qp = { .ctx = &foreign, .qp.qp_base = { .handle = QP_HANDLE, .qp_num = QPN, .qp_type = IBV_QPT_RC } };

static struct rdma_cm_id *
make_id_with_qp(struct rdma_event_channel **ec, int fail_with)
{
	struct rdma_cm_id *id = make_id(ec);

	id->qp = &qp.qp.qp_base;
	id->qp->state = IBV_QPS_INIT;
	nb_ops = 0;
	qp_ops_fail_with = fail_with;
	return id;
}

static void
end_id_with_qp(struct rdma_cm_id *id, struct rdma_event_channel *ec)
{
	id->qp = NULL;
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ec);
}

static void
accepting_and_disconnecting_are_one_request_each(void **state)
{
	struct rdma_event_channel *ec;
	struct rdma_cm_id *id = make_id_with_qp(&ec, 0);

	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(id->qp->state, IBV_QPS_RTS);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(id->qp->state, IBV_QPS_ERR);
	assert_int_equal(nb_ops, 2);
	assert_int_equal(ops[0], CTL_CM_ACCEPT_QP);
	assert_int_equal(ops[1], CTL_CM_DISCONNECT_QP);
	end_id_with_qp(id, ec);
}

static void
what_the_daemon_cannot_do_the_library_does(void **state)
{
	/* It can't now; it is older and doesn't know the request. */
	static const int reasons[] = { EAGAIN, EINVAL };
	struct rdma_event_channel *ec;
	struct rdma_cm_id *id;

	for (unsigned int i = 0; i < 2; i++) {
		id = make_id_with_qp(&ec, reasons[i]);
		/* It has the attributes, but the QP can't be moved. */
		assert_int_equal(rdma_accept(id, NULL), -1);
		assert_int_equal(errno, EIO);
		assert_int_equal(id->qp->state, IBV_QPS_INIT);
		assert_int_equal(nb_ops, 2);
		assert_int_equal(ops[0], CTL_CM_ACCEPT_QP);
		assert_int_equal(ops[1], CTL_CM_QP_ATTR);
		nb_ops = 0;
		assert_int_equal(rdma_disconnect(id), 0);
		assert_int_equal(nb_ops, 2);
		assert_int_equal(ops[0], CTL_CM_DISCONNECT_QP);
		assert_int_equal(ops[1], CTL_CM_DISCONNECT);
		end_id_with_qp(id, ec);
	}
}

static void
other_errors_are_the_programs(void **state)
{
	struct rdma_event_channel *ec;
	struct rdma_cm_id *id = make_id_with_qp(&ec, ENOMEM);

	assert_int_equal(rdma_accept(id, NULL), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(rdma_disconnect(id), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(nb_ops, 2);
	end_id_with_qp(id, ec);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepting_and_disconnecting_are_one_request_each),
		cmocka_unit_test(what_the_daemon_cannot_do_the_library_does),
		cmocka_unit_test(other_errors_are_the_programs),
		cmocka_unit_test(destination_is_written_before_it_is_asked_for),
		cmocka_unit_test(listener_knows_its_port_before_it_listens),
		cmocka_unit_test(event_that_follows_a_move_at_once_is_not_lost),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
