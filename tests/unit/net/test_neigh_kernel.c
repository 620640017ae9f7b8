/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Neighbours by the kernel's tables, with a fake kernel and a virtual clock. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util.h"

static const uint8_t peer_mac[6] = { 0x02, 0, 0, 0, 0, 0x02 };

/** The kernel: its first member is what lib/net believes it to be. */
struct fixture {
	struct net_kernel kernel;
	struct net_port p;
	struct net_gids gids;
	struct net_priv priv;
	int route_rc, neigh_rc;
	struct gid hop; /* of each route, unless zero */
	unsigned int triggers, looks;
	struct gid triggered, looked;
	struct outcome o[1]; /* here, because teardown cancels what is still under way */
};

static int
fake_route(void *kernel, const struct gid *sgid, const struct gid *dgid, struct gid *hop)
{
	struct fixture *f = kernel;

	*hop = gid_is_zero(&f->hop) ? *dgid : f->hop;
	return f->route_rc;
}

static int
fake_neigh(void *kernel, const struct gid *hop, uint8_t mac[6])
{
	struct fixture *f = kernel;

	f->looks++;
	f->looked = *hop;
	if (f->neigh_rc == 0)
		memcpy(mac, peer_mac, 6);
	return f->neigh_rc;
}

static void
fake_trigger(void *kernel, const struct gid *dgid)
{
	struct fixture *f = kernel;

	f->triggers++;
	f->triggered = *dgid;
}

static const struct kernel_ops fake_kernel = { .route = fake_route, .neigh = fake_neigh, .trigger = fake_trigger };

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->kernel.ops = &fake_kernel;
	f->p.priv = &f->priv;
	f->p.shared = true;
	f->priv.kernel = &f->kernel;
	f->gids.addr[1] = (struct net_addr){ .gid = gid4(198, 18, 0, 1), .prefix = 24 };
	f->p.gids = &f->gids;
	f->priv.neigh = neigh_table_create(&neigh_kernel_ops);
	assert_non_null(f->priv.neigh);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	neigh_table_destroy(f->priv.neigh);
	free(f);
	return 0;
}

static void
known_neighbour_is_answered_at_once(void **state)
{
	struct fixture *f = *state;
	uint8_t mac[6] = { 0 };
	struct gid gid;

	gid = gid4(198, 18, 0, 2);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, done, NULL), 0);
	assert_memory_equal(mac, peer_mac, 6);
	assert_int_equal(f->triggers, 0);
	assert_int_equal(f->priv.neigh->nb_neighs, 0); /* the kernel remembers, not we */
}

static void
unknown_neighbour_is_triggered_once_and_looked_for(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];
	uint64_t now = 0, next;
	unsigned int i;

	gid = gid4(198, 18, 0, 2);
	f->neigh_rc = ENOENT;
	assert_int_equal(net_resolve(&f->p, 1, &gid, now, mac, done, o), EINPROGRESS);
	assert_int_equal(f->triggers, 1);
	f->neigh_rc = EAGAIN;
	for (i = 0; i < 12; i++) {
		next = net_port_poll(&f->p, now);
		assert_true(next > now && next - now <= KERNEL_POLL_MAX_US * UINT64_C(1000));
		now = next;
	}
	assert_int_equal(f->triggers, 1);
	f->neigh_rc = 0;
	assert_true(net_port_poll(&f->p, now) == UINT64_MAX);
	assert_int_equal(o->calls, 1);
	assert_int_equal(o->status, 0);
	assert_memory_equal(o->mac, peer_mac, 6);
}

static void
first_look_comes_soon(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(198, 18, 0, 2);
	f->neigh_rc = ENOENT;
	net_resolve(&f->p, 1, &gid, 0, mac, done, o);
	assert_true(net_port_poll(&f->p, 0) == KERNEL_POLL_MIN_US * UINT64_C(1000));
}

static void
failure_of_long_ago_is_asked_again_and_a_new_one_counts(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(198, 18, 0, 2);
	f->neigh_rc = EHOSTUNREACH;
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, done, o), EINPROGRESS);
	assert_int_equal(f->triggers, 1);
	net_port_poll(&f->p, NEIGH_MS);
	assert_int_equal(o->calls, 1);
	assert_int_equal(o->status, ETIMEDOUT);
}

static void
silent_kernel_times_out(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];
	uint64_t now = 0;

	gid = gid4(198, 18, 0, 2);
	f->neigh_rc = EAGAIN;
	net_resolve(&f->p, 1, &gid, 0, mac, done, o);
	while (o->calls == 0) {
		assert_true(now <= (KERNEL_RESOLVE_MS + 100) * NEIGH_MS);
		now = net_port_poll(&f->p, now);
	}
	assert_int_equal(o->status, ETIMEDOUT);
	assert_int_equal(f->priv.neigh->nb_neighs, 0);
}

static void
gateway_is_looked_for_and_the_destination_triggered(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid far;
	uint8_t mac[6];

	far = gid4(203, 0, 113, 5);
	f->hop = gid4(198, 18, 0, 254);
	f->neigh_rc = ENOENT;
	assert_int_equal(net_resolve(&f->p, 1, &far, 0, mac, done, o), EINPROGRESS);
	assert_true(gid_equal(&f->looked, &f->hop));
	assert_true(gid_equal(&f->triggered, &far));
}

static void
no_route_is_unreachable(void **state)
{
	struct fixture *f = *state;
	struct gid far;
	uint8_t mac[6];

	far = gid4(203, 0, 113, 5);
	f->route_rc = EHOSTUNREACH;
	assert_int_equal(net_resolve(&f->p, 1, &far, 0, mac, done, NULL), EHOSTUNREACH);
	assert_int_equal(f->looks, 0);
}

static void
engines_teach_a_shared_port_nothing(void **state)
{
	struct fixture *f = *state;
	struct net_learned l = { 0 };
	struct outcome *o = &f->o[0];
	uint8_t mac[6];

	l.gid = gid4(198, 18, 0, 2);
	memcpy(l.mac, peer_mac, 6);
	f->neigh_rc = EAGAIN;
	net_resolve(&f->p, 1, &l.gid, 0, mac, done, o);
	net_learn(&f->p, &l, 0);
	assert_int_equal(o->calls, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(known_neighbour_is_answered_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(unknown_neighbour_is_triggered_once_and_looked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(first_look_comes_soon, setup, teardown),
		cmocka_unit_test_setup_teardown(failure_of_long_ago_is_asked_again_and_a_new_one_counts, setup,
						teardown),
		cmocka_unit_test_setup_teardown(silent_kernel_times_out, setup, teardown),
		cmocka_unit_test_setup_teardown(gateway_is_looked_for_and_the_destination_triggered, setup, teardown),
		cmocka_unit_test_setup_teardown(no_route_is_unreachable, setup, teardown),
		cmocka_unit_test_setup_teardown(engines_teach_a_shared_port_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
