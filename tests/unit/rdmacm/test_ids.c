/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/rdmacm: ids that one thread destroys while another reads an event of theirs. The daemon, the device and
 * its QPs are played by the functions below; the one that the reading thread calls last holds it there.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdmacm/rdmacm_priv.h"

enum {
	WAIT_MS = 5000,    /* for what must happen */
	SETTLE_US = 50000, /* for a thread to get as far as it can */
	LATER_HANDLE = 0x123,
};

static uint32_t last_handle;
static int events_fd; /* the daemon's end of the socket of events */
static uint32_t rejected; /* the id of the last connection request that was */
static atomic_bool inside, go_on;
static atomic_int nb_attached, nb_detached;

static void
wait_for(atomic_bool *flag)
{
	for (int i = 0; i < WAIT_MS && !atomic_load(flag); i++)
		usleep(1000);
	assert_true(atomic_load(flag));
}

/** Called in the reading thread. */
static void
hold(void)
{
	atomic_store(&inside, true);
	while (!atomic_load(&go_on))
		usleep(100);
}

/* ---- What librdmacm calls ---- */
void
client_call_init(struct client_call *c, enum ctl_op op)
{
	memset(c, 0, sizeof(*c));
	c->req.op = op;
}

int
client_exchange(int sock, struct client_call *c, bool *broken)
{
	int fds[2];

	if (c->req.op == CTL_CM_OPEN) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
			abort();
		events_fd = fds[0];
		c->got[c->nb_got++] = fds[1];
	}
	if (c->req.op == CTL_CM_CREATE_ID || c->req.op == CTL_CM_JOIN || c->req.op == CTL_CM_MIGRATE)
		c->rsp.handle.handle = ++last_handle;
	if (c->req.op == CTL_CM_DESTROY_ID)
		rejected = c->req.cm_destroy.id;
	return 0;
}

void
client_call_close_fds(struct client_call *c, uint32_t from)
{
}

void
client_complain(const char *fmt, ...)
{
}

const char *
client_socket_path(void)
{
	return "";
}

int
client_connect(const char *path, int *sock, uint32_t *nb_devices)
{
	*sock = -1;
	return 0;
}

int
cm_device_get(struct cm_channel *ch, uint32_t index, struct cm_device **out)
{
	hold();
	return ENOMEM;
}

int
ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	hold();
	atomic_fetch_add(&nb_attached, 1);
	return 0;
}

int
ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	atomic_fetch_add(&nb_detached, 1);
	return 0;
}

int
cmid_accept_qp(struct cmid *id, struct client_call *c)
{
	return 0;
}

void
cmid_qp_error(struct cmid *id)
{
}

void
cm_ah_attr(const struct uroce_ah_attr *av, struct ibv_ah_attr *out)
{
}

/* Of rdma_create_ep() and rdma_destroy_ep(), which nobody calls here. */
int
rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr, int timeout_ms)
{
	return -1;
}

int
rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	return -1;
}

int
rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return -1;
}

void
rdma_destroy_qp(struct rdma_cm_id *id)
{
}

void
rdma_destroy_srq(struct rdma_cm_id *id)
{
}

/* ---- Threads ---- */
static void *
read_event(void *channel)
{
	struct rdma_cm_event *ev;

	if (!rdma_get_cm_event(channel, &ev))
		rdma_ack_cm_event(ev);
	return NULL;
}

static atomic_bool destroyed;

static void *
destroy(void *id)
{
	rdma_destroy_id(id);
	atomic_store(&destroyed, true);
	return NULL;
}

static void
tell(const struct ctl_cm_event *ev)
{
	assert_int_equal(write(events_fd, ev, sizeof(*ev)), sizeof(*ev));
}

/** One thread reads @p ev and is held in it, another destroys @p id meanwhile. */
static void
destroy_during(struct rdma_event_channel *ch, struct rdma_cm_id *id, const struct ctl_cm_event *ev, pthread_t th[2])
{
	atomic_store(&inside, false);
	atomic_store(&go_on, false);
	atomic_store(&destroyed, false);
	tell(ev);
	pthread_create(&th[0], NULL, read_event, ch);
	wait_for(&inside);
	pthread_create(&th[1], NULL, destroy, id);
	usleep(SETTLE_US);
	assert_false(atomic_load(&destroyed));
	atomic_store(&go_on, true);
	wait_for(&destroyed);
	pthread_join(th[1], NULL);
}

/** A request that there is no memory or device for is nobody's event: who waits for the last one must hear of that. */
static void
request_that_failed_lets_its_listener_go(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener, *other;
	struct ctl_cm_event ev = { .type = CTL_CM_EV_CONNECT_REQUEST, .id = LATER_HANDLE };
	pthread_t th[2];

	assert_non_null(ch);
	assert_int_equal(rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_create_id(ch, &other, NULL, RDMA_PS_TCP), 0);
	ev.listener = to_cmid(listener)->handle;
	destroy_during(ch, listener, &ev, th);
	/* The reader has gone on to the next. */
	ev = (struct ctl_cm_event){ .type = CTL_CM_EV_DISCONNECTED, .id = to_cmid(other)->handle };
	tell(&ev);
	pthread_join(th[0], NULL);
	rdma_destroy_id(other);
	rdma_destroy_event_channel(ch);
	close(events_fd);
}

static void
group_is_left_when_its_join_was_read(void **state)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010101) };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ctl_cm_event ev = { .type = CTL_CM_EV_MULTICAST_JOIN };
	struct ibv_qp qp = { 0 };
	struct rdma_cm_id *id;
	pthread_t th[2];

	assert_non_null(ch);
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	id->qp = &qp;
	ev.id = to_cmid(id)->handle;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	ev.group = last_handle;
	destroy_during(ch, id, &ev, th);
	pthread_join(th[0], NULL);
	assert_int_equal(nb_attached, 1);
	assert_int_equal(nb_detached, 1);
	rdma_destroy_event_channel(ch);
	close(events_fd);
}

/* ---- Events of ids that are gone ---- */
static void
disconnected(const struct rdma_cm_id *id)
{
	tell(&(struct ctl_cm_event){ .type = CTL_CM_EV_DISCONNECTED, .id = to_cmid((struct rdma_cm_id *)(uintptr_t)id)->handle });
}

static bool
readable(const struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/** An id that moved has its events in the new channel: who polls the old one must not find it readable. */
static void
moved_id_leaves_nothing_to_read(void **state)
{
	struct rdma_event_channel *from = rdma_create_event_channel(), *to;
	int from_events = events_fd;
	struct rdma_cm_id *id;

	assert_non_null(from);
	assert_int_equal(rdma_create_id(from, &id, NULL, RDMA_PS_TCP), 0);
	disconnected(id);
	assert_true(readable(from));
	to = rdma_create_event_channel();
	assert_non_null(to);
	assert_int_equal(rdma_migrate_id(id, to), 0);
	assert_false(readable(from));
	rdma_destroy_id(id);
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
	close(from_events);
	close(events_fd);
}

/** What is behind the event of another id goes when that was read. */
static void
destroyed_id_leaves_nothing_to_read(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener, *gone, *stays;
	struct rdma_cm_event *ev;

	assert_non_null(ch);
	assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_create_id(ch, &gone, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_create_id(ch, &stays, NULL, RDMA_PS_TCP), 0);
	disconnected(gone);
	disconnected(stays);
	disconnected(gone);
	tell(&(struct ctl_cm_event){ .type = CTL_CM_EV_CONNECT_REQUEST, .id = LATER_HANDLE, .listener = to_cmid(listener)->handle });
	rdma_destroy_id(gone);
	rdma_destroy_id(listener);
	assert_true(readable(ch));
	assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
	assert_ptr_equal(ev->id, stays);
	assert_false(readable(ch));
	assert_int_equal(rejected, LATER_HANDLE);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_get_cm_event(ch, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	rdma_destroy_id(stays);
	rdma_destroy_event_channel(ch);
	close(events_fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_that_failed_lets_its_listener_go),
		cmocka_unit_test(group_is_left_when_its_join_was_read),
		cmocka_unit_test(moved_id_leaves_nothing_to_read),
		cmocka_unit_test(destroyed_id_leaves_nothing_to_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
