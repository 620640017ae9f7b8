/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each of the eleven MADs where it belongs, cut off at every length, and with every bit and every byte wrong: whatever
 * comes is answered, told to the owner, or dropped and counted.
 */
#include "rig.h"

#include <assert.h>
#include <stdlib.h>

/* Where a MAD is expected: the end that sent it, and the MAD itself, still in flight. */
struct expected {
	struct rig_end *from;
	struct rig_mad mad;
};
typedef void prepare_fn(struct rig *r, struct expected *x);

static void
take(struct expected *x, struct rig_end *from)
{
	assert_int_equal(from->nb_out, 1);
	x->from = from;
	x->mad = from->out[0];
	rig_lose(from);
}

static void
req(struct rig *r, struct expected *x)
{
	rig_listen(r);
	rig_connect(r);
	take(x, &r->a);
}

static void
answer_request(struct rig *r, int (*answer)(struct rig *r, struct cm_conn *b), struct expected *x)
{
	struct cm_conn *b;

	rig_listen(r);
	rig_connect_request(r, &b);
	assert_int_equal(answer(r, b), 0);
	take(x, &r->b);
}

static int
ask_for_time(struct rig *r, struct cm_conn *b)
{
	return cm_mra(b, 20, no_data, r->now);
}

static int
refuse(struct rig *r, struct cm_conn *b)
{
	return cm_reject(b, CM_REJ_CONSUMER_DEFINED, no_data, no_data, r->now);
}

static int
accept_it(struct rig *r, struct cm_conn *b)
{
	struct cm_accept_param p = rig_accept_param(r);

	return cm_accept(b, &p, r->now);
}

static void
mra(struct rig *r, struct expected *x)
{
	answer_request(r, ask_for_time, x);
}

static void
rej(struct rig *r, struct expected *x)
{
	answer_request(r, refuse, x);
}

static void
rep(struct rig *r, struct expected *x)
{
	answer_request(r, accept_it, x);
}

static void
rtu(struct rig *r, struct expected *x)
{
	struct cm_conn *a, *b;

	rig_listen(r);
	a = rig_connect_response(r, &b);
	assert_int_equal(cm_rtu(a, no_data, r->now), 0);
	take(x, &r->a);
}

static void
dreq(struct rig *r, struct expected *x)
{
	struct cm_conn *a, *b;

	rig_listen(r);
	a = rig_establish(r, &b);
	assert_int_equal(cm_disconnect(a, no_data, r->now), 0);
	take(x, &r->a);
}

static void
drep(struct rig *r, struct expected *x)
{
	struct cm_conn *a, *b;

	rig_listen(r);
	a = rig_establish(r, &b);
	assert_int_equal(cm_disconnect(a, no_data, r->now), 0);
	rig_deliver(&r->a);
	rig_expect(&r->b, CM_EV_DISCONNECT);
	assert_int_equal(cm_disconnect(b, no_data, r->now), 0);
	take(x, &r->b);
}

static void
ask_for_service(struct rig *r)
{
	struct cm_sidr_param p = { .av = rig_av(&r->a), .service_id = RIG_SERVICE, .timeout_ns = RIG_SEC, .max_retries = 3 };

	rig_listen(r);
	assert_non_null(cm_sidr_request(r->a.cm, &p, r->now));
}

static void
sidr_req(struct rig *r, struct expected *x)
{
	ask_for_service(r);
	take(x, &r->a);
}

static void
sidr_rep(struct rig *r, struct expected *x)
{
	struct cm_sidr_reply_param p = { .status = CM_SIDR_SUCCESS, .qpn = RIG_QPN_B, .qkey = 0x11111 };

	ask_for_service(r);
	rig_deliver(&r->a);
	assert_int_equal(cm_sidr_reply(rig_expect(&r->b, CM_EV_SIDR_REQUEST)->ev.conn, &p, r->now), 0);
	take(x, &r->b);
}

static void
forge(struct rig *r, const struct cm_msg *m, struct rig_end *from, struct expected *x)
{
	x->from = from;
	x->mad.av = rig_av(from);
	cm_mad_encode(m, x->mad.mad);
}

static void
lap(struct rig *r, struct expected *x)
{
	struct cm_conn *a, *b;
	struct cm_msg m;

	rig_listen(r);
	a = rig_establish(r, &b);
	m = rig_lap(a, b, RIG_QPN_B);
	m.lap.alternate.local_gid = r->a.gid;
	m.lap.alternate.remote_gid = r->b.gid;
	m.lap.alternate.hop_limit = 64;
	forge(r, &m, &r->a, x);
}

static void
apr(struct rig *r, struct expected *x)
{
	struct cm_conn *a, *b;
	struct cm_msg m;

	rig_listen(r);
	a = rig_establish(r, &b);
	cm_msg_init(&m, CM_ATTR_APR, 77);
	m.apr.local_comm_id = cm_conn_local_id(b);
	m.apr.remote_comm_id = cm_conn_local_id(a);
	forge(r, &m, &r->b, x);
}

static const struct {
	const char *name;
	prepare_fn *prepare;
	enum cm_attr attr;
} all[] = {
	{ "REQ", req, CM_ATTR_REQ },
	{ "MRA", mra, CM_ATTR_MRA },
	{ "REJ", rej, CM_ATTR_REJ },
	{ "REP", rep, CM_ATTR_REP },
	{ "RTU", rtu, CM_ATTR_RTU },
	{ "DREQ", dreq, CM_ATTR_DREQ },
	{ "DREP", drep, CM_ATTR_DREP },
	{ "SIDR_REQ", sidr_req, CM_ATTR_SIDR_REQ },
	{ "SIDR_REP", sidr_rep, CM_ATTR_SIDR_REP },
	{ "LAP", lap, CM_ATTR_LAP },
	{ "APR", apr, CM_ATTR_APR },
};
enum { NB_ALL = sizeof(all) / sizeof(all[0]), LONGER = 44 };
static_assert((int)NB_ALL == (int)CM_ATTR_COUNT, "all of them");

static uint64_t
dropped(const struct cm_counters *c)
{
	return c->rx_bad_length + c->rx_bad_version + c->rx_other_class + c->rx_bad_method + c->rx_bad_attribute +
	       c->rx_bad_field + c->rx_unknown_id + c->rx_wrong_state + c->rx_wrong_qpn + c->rx_peer_active + c->rx_duplicate;
}

static struct rig_end *
receiver(struct rig *r, const struct expected *x)
{
	return x->from == &r->a ? &r->b : &r->a;
}

/* Hand over what was made of the MAD. @return 'd' dropped, 'a' answered, 'e' an event, 'x' none of these or two. */
static char
verdict(struct rig *r, struct expected *x)
{
	struct rig_end *to = receiver(r, x);
	uint64_t drops = dropped(cm_counters(to->cm));
	unsigned int out = to->nb_out, events = to->nb_events;

	rig_carry(x->from, &x->mad);
	drops = dropped(cm_counters(to->cm)) - drops;
	out = to->nb_out - out;
	events = to->nb_events - events;
	if (drops == 1 && out == 0 && events == 0)
		return 'd';
	/* A request that shows that a connection is stale gets two MADs (NOTES of cm.h). */
	if (drops == 0 && events == 0 && (out == 1 || out == 2))
		return 'a';
	return drops == 0 && events == 1 && out <= 1 ? 'e' : 'x';
}

/* Spoil byte @p at of message @p n by xor, and see to it that it comes to nothing but one of the three. */
static char
try_spoiled(unsigned int n, unsigned int at, uint8_t mask)
{
	struct rig *r = rig_new(NULL);
	struct expected x;
	char v;

	all[n].prepare(r, &x);
	x.mad.mad[at] ^= mask;
	v = verdict(r, &x);
	if (v == 'x')
		fail_msg("%s with byte %u ^ %#x is neither dropped and counted, nor answered, nor told", all[n].name, at, mask);
	rig_free(r);
	return v;
}

static void
unspoiled_mads_are_taken(void **state)
{
	struct cm_msg m;

	for (unsigned int n = 0; n < NB_ALL; n++) {
		struct rig *r = rig_new(NULL);
		struct expected x;

		all[n].prepare(r, &x);
		assert_int_equal(cm_mad_decode(x.mad.mad, CM_MAD_BYTES, &m), CM_MAD_OK);
		assert_int_equal(m.hdr.attr_id, all[n].attr);
		/* Nobody has sent a LAP that the APR could be for. */
		assert_int_equal(verdict(r, &x), all[n].attr == CM_ATTR_APR ? 'd' : 'e');
		rig_free(r);
	}
}

static void
every_other_length_is_dropped_and_counted(void **state)
{
	uint8_t longer[CM_MAD_BYTES + LONGER] = { 0 };

	for (unsigned int n = 0; n < NB_ALL; n++) {
		struct rig *r = rig_new(NULL);
		struct cm_av av;
		struct expected x;
		struct cm *cm;
		uint64_t tried = 0;

		all[n].prepare(r, &x);
		cm = receiver(r, &x)->cm;
		av = rig_av(receiver(r, &x));
		memcpy(longer, x.mad.mad, CM_MAD_BYTES);
		for (size_t len = 0; len <= sizeof(longer); len++) {
			/* Of its own size, so that a sanitizer sees what is read beyond. */
			uint8_t *bytes = malloc(len + 1);

			if (len != CM_MAD_BYTES) {
				memcpy(bytes, longer, len);
				cm_rx(cm, &av, bytes, len, r->now);
				tried++;
			}
			free(bytes);
		}
		assert_int_equal(cm_counters(cm)->rx_bad_length, tried);
		assert_int_equal(receiver(r, &x)->nb_out, 0);
		/* None of it has harmed what is expected. */
		assert_int_not_equal(verdict(r, &x), 'x');
		rig_free(r);
	}
}

static void
every_flipped_bit_is_dropped_answered_or_told(void **state)
{
	for (unsigned int n = 0; n < NB_ALL; n++) {
		for (unsigned int bit = 0; bit < 8 * CM_MAD_BYTES; bit++)
			try_spoiled(n, bit / 8, (uint8_t)(1 << bit % 8));
	}
}

static void
every_byte_of_ones_is_dropped_answered_or_told(void **state)
{
	for (unsigned int n = 0; n < NB_ALL; n++) {
		for (unsigned int at = 0; at < CM_MAD_BYTES; at++)
			try_spoiled(n, at, 0xff);
	}
}

/* What makes a MAD one of the connection manager's: another value anywhere, and it is dropped. */
static void
another_header_is_dropped(void **state)
{
	static const uint8_t must[] = { 0, 1, 2, 3, 16 };

	for (unsigned int n = 0; n < NB_ALL; n++) {
		for (unsigned int i = 0; i < sizeof(must); i++) {
			for (unsigned int mask = 1; mask < 256; mask += 11)
				assert_int_equal(try_spoiled(n, must[i], (uint8_t)mask), 'd');
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unspoiled_mads_are_taken),
		cmocka_unit_test(every_other_length_is_dropped_and_counted),
		cmocka_unit_test(every_flipped_bit_is_dropped_answered_or_told),
		cmocka_unit_test(every_byte_of_ones_is_dropped_answered_or_told),
		cmocka_unit_test(another_header_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
