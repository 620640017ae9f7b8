/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs and users may have: each limit at its bound and one beyond, and what the message says. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/quota_priv.h"
#include "control/core/subuid_priv.h"
#include "daemon.h"

enum { CQ_ENTRIES = 64, MR_BYTES = 1 << 20, SMALL_SEG = 1, SHORT_SECONDS = 1 };

static int
mr_reg_at(struct peer *p, uint32_t pd, uint64_t addr, uint64_t bytes, enum ctl_seg_kind kind, struct ctl_rsp *r)
{
	uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_seg *seg = (void *)(buf + CTL_REQ_BYTES);
	struct ctl_req *q = (void *)buf;

	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .addr = addr, .iova = addr, .length = bytes, .nb_segs = 1, .nb_in_msg = 1,
					     .access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_READ };
	*seg = (struct ctl_seg){ .va = addr, .length = bytes, .kind = kind,
				  .offset = kind == CTL_SEG_CONVERTED ? 1 << 20 : 0 };
	assert_int_equal(peer_send(p->sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(p->sock, r, NULL, 0));
	return r->status;
}

/** Register so much converted memory. */
static int
mr_reg(struct peer *p, uint32_t pd, uint64_t bytes, struct ctl_rsp *r)
{
	return mr_reg_at(p, pd, UINT64_C(1) << 30, bytes, CTL_SEG_CONVERTED, r);
}

static void
expect_part(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' isn't in '%s'", part, text);
}

/* ---- Quotas ---- */
static void
expect_refused(int status, const struct ctl_rsp *r, int err, const char *key)
{
	assert_int_equal(status, err);
	expect_part(r->message, key);
}

static void
a_program_gets_no_more_than_its_share(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	struct ctl_rsp cq, qp, mr, r;
	struct ctl_req q;
	struct peer p;
	uint32_t pd;

	peer_open(&p);
	pd = peer_pd(p.sock);
	control_lock(daemon_control());
	conf->session_max_cq = conf->session_max_qp = conf->session_max_mr = 1;
	control_unlock(daemon_control());
	assert_int_equal(peer_ask_cq(&p, CQ_ENTRIES, &cq), 0);
	expect_refused(peer_ask_cq(&p, CQ_ENTRIES, &r), &r, ENOMEM, "daemon.session_max_cq is 1");
	assert_int_equal(peer_ask_qp(&p, pd, cq.cq_create.handle, &qp), 0);
	expect_refused(peer_ask_qp(&p, pd, cq.cq_create.handle, &r), &r, ENOMEM, "daemon.session_max_qp is 1");
	assert_int_equal(mr_reg(&p, pd, MR_BYTES, &mr), 0);
	expect_refused(mr_reg(&p, pd, MR_BYTES, &r), &r, ENOMEM, "daemon.session_max_mr is 1");
	/* What goes makes room. */
	q = peer_req(CTL_QP_DESTROY);
	q.handle.handle = qp.qp_create.handle;
	assert_int_equal(peer_ask(&p, &q, &r), 0);
	assert_int_equal(peer_ask_qp(&p, pd, cq.cq_create.handle, &qp), 0);
	control_lock(daemon_control());
	conf->session_max_cq = conf->session_max_qp = conf->session_max_mr = 0;
	conf->session_max_memory = 1;
	control_unlock(daemon_control());
	expect_refused(mr_reg(&p, pd, MR_BYTES, &r), &r, ENOMEM, "daemon.session_max_memory is 1");
	q = peer_req(CTL_MR_DEREG);
	q.handle.handle = mr.mr_reg.handle;
	assert_int_equal(peer_ask(&p, &q, &r), 0);
	assert_int_equal(mr_reg(&p, pd, MR_BYTES, &mr), 0);
	conf->session_max_memory = 0;
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/* Whatever is counted never wraps, also where there is no limit: a program need not have the memory that it registers. */
static void
what_a_user_has_adds_up_to_2_63_at_most(void **state)
{
	const uint64_t half = UINT64_C(1) << 62;
	struct ctl_rsp mr, r;
	struct ctl_req q;
	struct peer p;
	uint32_t pd;

	peer_open(&p);
	pd = peer_pd(p.sock);
	assert_int_equal(mr_reg_at(&p, pd, 0, half, CTL_SEG_REMOTE, &mr), 0);
	expect_refused(mr_reg_at(&p, pd, 0, half, CTL_SEG_REMOTE, &r), &r, ENOMEM, "add up to 2^63");
	assert_int_equal(mr_reg_at(&p, pd, 0, half - 1, CTL_SEG_REMOTE, &r), 0);
	expect_refused(mr_reg_at(&p, pd, 0, 1, CTL_SEG_REMOTE, &r), &r, ENOMEM, "add up to 2^63");
	q = peer_req(CTL_MR_DEREG);
	q.handle.handle = mr.mr_reg.handle;
	assert_int_equal(peer_ask(&p, &q, &r), 0);
	assert_int_equal(mr_reg_at(&p, pd, 0, half, CTL_SEG_REMOTE, &r), 0);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

static void
all_programs_of_a_user_share(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	struct ctl_req q = peer_req(CTL_HELLO);
	struct ctl_rsp cq, r;
	struct peer a, b;
	int sock;

	peer_open(&a);
	peer_open(&b);
	conf->limit_root = true;
	conf->user_max_cq = 1;
	conf->user_max_memory = 1;
	conf->user_max_sessions = 2;
	assert_int_equal(peer_ask_cq(&a, CQ_ENTRIES, &cq), 0);
	expect_refused(peer_ask_cq(&b, CQ_ENTRIES, &r), &r, ENOMEM, "daemon.user_max_cq is 1");
	assert_int_equal(mr_reg(&a, peer_pd(a.sock), MR_BYTES, &r), 0);
	expect_refused(mr_reg(&b, peer_pd(b.sock), MR_BYTES, &r), &r, ENOMEM, "daemon.user_max_memory is 1");
	sock = peer_connect();
	peer_send(sock, &q, sizeof(q), NULL, 0);
	assert_true(peer_recv(sock, &r, NULL, 0));
	expect_refused((int)r.status, &r, EMFILE, "daemon.user_max_sessions");
	close(sock);
	/* With a program goes what it had. */
	peer_close(&a);
	for (int i = 0; i < 5000 && peer_ask_cq(&b, CQ_ENTRIES, &cq) != 0; i++)
		usleep(1000);
	assert_int_equal(mr_reg(&b, peer_pd(b.sock), MR_BYTES, &r), 0);
	conf->user_max_cq = conf->user_max_memory = conf->user_max_sessions = 0;
	conf->limit_root = false;
	peer_close(&b);
	assert_true(daemon_wait_empty());
}

static void
connections_are_counted_by_the_second(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	struct request r = { 0 };
	struct session *s;
	struct peer p;

	peer_open(&p);
	control_lock(daemon_control());
	s = TAILQ_FIRST(&daemon_control()->sessions);
	conf->session_max_connects = 2;
	assert_int_equal(quota_connect(s, &r), 0);
	assert_int_equal(quota_connect(s, &r), 0);
	assert_int_equal(quota_connect(s, &r), EAGAIN);
	expect_part(r.message, "daemon.session_max_connects is 2");
	usleep(600000);
	assert_int_equal(quota_connect(s, &r), 0);
	conf->session_max_connects = 0;
	conf->limit_root = true;
	conf->user_max_connects = 1;
	assert_int_equal(quota_connect(s, &r), 0);
	assert_int_equal(quota_connect(s, &r), EAGAIN);
	expect_part(r.message, "daemon.user_max_connects is 1");
	conf->user_max_connects = 0;
	conf->limit_root = false;
	assert_int_equal(quota_connect(s, &r), 0);
	control_unlock(daemon_control());
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/* ---- Every kind ---- */
static const struct {
	const char *kind;
	size_t session, user;
	uint64_t unit;
} kinds[QUOTAS] = {
#define X(kind, session_, user_, most_, unit_, plural_) \
	{ #kind, offsetof(struct uroced_config, session_max_##kind), offsetof(struct uroced_config, user_max_##kind), unit_ },
	CONFIG_QUOTAS(X)
#undef X
};

/** At the bound, one beyond it, and again after something was given back. */
static void
check_kind(struct session *s, enum quota kind, size_t offset, const char *whose)
{
	uint32_t *limit = (uint32_t *)((char *)s->control->s.conf + offset), before = *limit;
	uint64_t have = s->used[kind], unit = kinds[kind].unit;
	struct request r = { 0 };
	char text[64];

	*limit = (uint32_t)(have / unit) + 3;
	assert_int_equal(quota_take(s, kind, *limit * unit - have, &r), 0);
	assert_false(quota_fits(s, kind, 1));
	assert_int_equal(quota_take(s, kind, 1, &r), ENOMEM);
	snprintf(text, sizeof(text), "daemon.%s_max_%s is %u", whose, kinds[kind].kind, *limit);
	expect_part(r.message, text);
	quota_give(s, kind, 1);
	assert_true(quota_fits(s, kind, 1));
	assert_int_equal(quota_take(s, kind, UINT64_MAX, &r), ENOMEM);
	*limit = 0;
	assert_int_equal(quota_take(s, kind, unit, NULL), 0);
	quota_give(s, kind, s->used[kind] - have);
	*limit = before;
}

static void
each_kind_has_a_limit_for_programs_and_one_for_users(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	uint64_t refused[QUOTAS];
	struct session *s;
	struct peer p;

	peer_open(&p);
	control_lock(daemon_control());
	s = TAILQ_FIRST(&daemon_control()->sessions);
	memcpy(refused, daemon_control()->refused, sizeof(refused));
	conf->limit_root = true;
	for (unsigned int i = 0; i < QUOTAS; i++) {
		check_kind(s, i, kinds[i].session, "session");
		check_kind(s, i, kinds[i].user, "user");
		assert_int_equal(daemon_control()->refused[i], refused[i] + 4);
	}
	conf->limit_root = false;
	control_unlock(daemon_control());
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/** Requests that make one object each, of the kinds that need nothing but a PD and a QP. */
static int
make(struct peer *p, enum quota kind, uint32_t pd, uint32_t qp, struct ctl_rsp *r)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 224, 1, 2, 3 }, self[16] = { [10] = 0xff, 0xff, 198, 18, 0, 1 };
	struct ctl_req q;

	switch (kind) {
	case QUOTA_pd:
		q = peer_req(CTL_PD_ALLOC);
		break;
	case QUOTA_channel:
	case QUOTA_fd:
		q = peer_req(CTL_CHANNEL_CREATE);
		break;
	case QUOTA_srq:
		q = peer_req(CTL_SRQ_CREATE);
		q.srq_create = (struct ctl_srq_create_req){ .pd = pd, .max_wr = 1, .max_sge = 1 };
		break;
	case QUOTA_mr:
		q = peer_req(CTL_MW_ALLOC);
		q.mw_alloc = (struct ctl_mw_alloc_req){ .pd = pd, .type = 1 };
		break;
	case QUOTA_xrcd:
		q = peer_req(CTL_XRCD_OPEN);
		break;
	case QUOTA_ah:
		q = peer_req(CTL_AH_CREATE);
		q.ah_create = (struct ctl_ah_create_req){ .pd = pd, .attr = { .is_global = 1, .port_num = 1, .sgid_index = 1 } };
		memcpy(q.ah_create.attr.dgid, self, 16);
		break;
	case QUOTA_mcast:
		q = peer_req(CTL_MCAST_ATTACH);
		q.mcast.qp = qp;
		memcpy(q.mcast.mgid, group, 16);
		break;
	default:
		q = peer_req(CTL_CM_CREATE_ID);
		q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = UROCE_QPT_RC };
	}
	return peer_ask(p, &q, r);
}

static void
objects_of_each_kind_are_counted(void **state)
{
	static const enum quota some[] = { QUOTA_pd, QUOTA_channel, QUOTA_fd, QUOTA_srq, QUOTA_mr, QUOTA_xrcd, QUOTA_ah, QUOTA_mcast,
					   QUOTA_cm_id, QUOTA_metadata };
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct uroced_config *conf = daemon_control()->s.conf;
	struct ctl_rsp cq, qp, r;
	struct session *s;
	char text[64];
	uint32_t *limit, before, pd;
	struct peer p;

	peer_open(&p);
	pd = peer_pd(p.sock);
	assert_int_equal(peer_ask_cq(&p, CQ_ENTRIES, &cq), 0);
	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_UD, .pd = pd, .send_cq = cq.cq_create.handle,
						  .recv_cq = cq.cq_create.handle, .srq = UINT32_MAX, .cap = { 1, 1, 1, 1, 0 } };
	assert_int_equal(peer_ask(&p, &q, &qp), 0);
	q = peer_req(CTL_CM_OPEN);
	assert_int_equal(peer_ask(&p, &q, &r), 0);
	s = TAILQ_FIRST(&daemon_control()->sessions);
	for (unsigned int i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		limit = (uint32_t *)((char *)conf + kinds[some[i]].session);
		before = *limit;
		control_lock(daemon_control());
		*limit = (uint32_t)(s->used[some[i]] / kinds[some[i]].unit) + 1;
		control_unlock(daemon_control());
		/* Metadata are used up by ids. */
		for (unsigned int n = 0; some[i] == QUOTA_metadata && n < 4096 && make(&p, QUOTA_cm_id, pd, 0, &r) == 0; n++)
			;
		if (some[i] != QUOTA_metadata) {
			assert_int_equal(make(&p, some[i], pd, qp.qp_create.handle, &r), 0);
			/* Attaching a second time changes nothing. */
			if (some[i] == QUOTA_mcast)
				assert_int_equal(make(&p, some[i], pd, qp.qp_create.handle, &r), 0);
			else
				assert_int_equal(make(&p, some[i], pd, qp.qp_create.handle, &r), ENOMEM);
		}
		snprintf(text, sizeof(text), "daemon.session_max_%s is %u", kinds[some[i]].kind, *limit);
		if (some[i] != QUOTA_mcast)
			expect_part(r.message, text);
		*limit = before;
	}
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/** Send @p nb segments of a byte each, every other one remote. @return the status of the last request. */
static int
scattered_mr(struct peer *p, uint32_t pd, uint32_t nb, struct ctl_rsp *r)
{
	uint8_t buf[CTL_REQ_BYTES + CTL_SEGS_PER_MSG * sizeof(struct ctl_seg)];
	struct ctl_seg *segs = (void *)(buf + CTL_REQ_BYTES);
	const uint64_t addr = UINT64_C(1) << 30;
	struct ctl_req *q = (void *)buf;
	uint32_t done = 0, n, i;

	while (done < nb) {
		n = nb - done < CTL_SEGS_PER_MSG ? nb - done : CTL_SEGS_PER_MSG;
		memset(buf, 0, sizeof(buf));
		*q = peer_req(done + n < nb ? CTL_MR_SEGS : CTL_MR_REG);
		if (done + n < nb)
			q->mr_segs.nb_in_msg = n;
		else
			q->mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .addr = addr, .iova = addr, .length = nb, .nb_segs = nb,
							     .nb_in_msg = n };
		for (i = 0; i < n; i++, done++)
			segs[i] = (struct ctl_seg){ .va = addr + done, .length = 1, .kind = done % 2 ? CTL_SEG_REMOTE : CTL_SEG_CONVERTED,
						    .offset = done };
		assert_int_equal(peer_send(p->sock, buf, CTL_REQ_BYTES + n * sizeof(*segs), NULL, 0), 0);
		assert_true(peer_recv(p->sock, r, NULL, 0));
		if (r->status != 0)
			break;
	}
	return r->status;
}

static void
segments_of_mrs_are_metadata(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	const uint32_t before = conf->session_max_metadata;
	struct ctl_rsp r;
	struct session *s;
	struct peer p;
	uint64_t used;
	uint32_t pd;
	int n = 0;

	peer_open(&p);
	pd = peer_pd(p.sock);
	s = TAILQ_FIRST(&daemon_control()->sessions);
	used = s->used[QUOTA_metadata];
	conf->session_max_metadata = 4;
	while (n < 300 && scattered_mr(&p, pd, 16384, &r) == 0)
		n++;
	assert_in_range(n, 2, 8);
	expect_part(r.message, "daemon.session_max_metadata is 4");
	/* The last one's segments were given back, or are in the session until the next request. */
	assert_int_not_equal(scattered_mr(&p, pd, 16384, &r), 0);
	assert_in_range(s->used[QUOTA_metadata], used, 4 << 20);
	conf->session_max_metadata = before;
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

static void
queues_are_counted_for_the_user(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	const uint32_t before = conf->user_max_rings;
	struct ctl_req q = peer_req(CTL_CQ_CREATE);
	struct ctl_rsp r;
	struct peer a, b;

	peer_open(&a);
	peer_open(&b);
	conf->limit_root = true;
	conf->user_max_rings = 3;
	q.cq_create.cqe = 1 << 16; /* 2 MiB */
	assert_int_equal(peer_ask(&a, &q, &r), 0);
	expect_refused(peer_ask(&b, &q, &r), &r, ENOMEM, "daemon.user_max_rings is 3");
	assert_int_equal(peer_handle(a.sock, CTL_CQ_DESTROY, 0), 0);
	assert_int_equal(peer_ask(&b, &q, &r), 0);
	conf->user_max_rings = before;
	conf->limit_root = false;
	peer_close(&a);
	peer_close(&b);
	assert_true(daemon_wait_empty());
}

/* ---- Users ---- */
static void
subordinate_ids_are_their_owners(void **state)
{
	char path[] = "/tmp/uroce-subuid-XXXXXX";
	static const char text[] = "# comment\n4711:100000:65536\nroot:300000:10\nnobody-has-this-name:400000:10\n"
				   "4712:500000\n:1:1\n4713:x:9\n4714:600000:0\n4715:700000:1:2\n4716:200000:1\n";
	struct subuids *ids;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	ids = subuid_read(path);
	assert_int_equal(subuid_owner(ids, 99999), 99999);
	assert_int_equal(subuid_owner(ids, 100000), 4711);
	assert_int_equal(subuid_owner(ids, 165535), 4711);
	assert_int_equal(subuid_owner(ids, 165536), 165536);
	assert_int_equal(subuid_owner(ids, 200000), 4716);
	assert_int_equal(subuid_owner(ids, 300009), 0);
	for (uid_t uid = 400000; uid <= 700000; uid += 100000)
		assert_int_equal(subuid_owner(ids, uid), uid);
	subuid_free(ids);
	unlink(path);
	assert_null(subuid_read(path));
	assert_int_equal(subuid_owner(NULL, 7), 7);
}

static void
root_has_no_limits_of_users_unless_asked_for(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	const uint32_t before = conf->user_max_pd;
	bool root = geteuid() == 0;
	struct ctl_rsp r;
	struct peer p;

	peer_open(&p);
	conf->user_max_pd = 1;
	assert_int_equal(make(&p, QUOTA_pd, 0, 0, &r), 0);
	assert_int_equal(make(&p, QUOTA_pd, 0, 0, &r), root ? 0 : ENOMEM);
	conf->limit_root = true;
	assert_int_equal(make(&p, QUOTA_pd, 0, 0, &r), ENOMEM);
	conf->limit_root = false;
	conf->user_max_pd = before;
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/* ---- Connections without HELLO ---- */
static void
who_does_not_say_hello_is_disconnected(void **state)
{
	struct uroced_config *conf = daemon_control()->s.conf;
	const uint32_t before = conf->hello_timeout;
	uint64_t timeouts = daemon_control()->hello_timeouts;
	struct ctl_rsp r;
	int mute = peer_connect(), polite = peer_connect();

	conf->hello_timeout = SHORT_SECONDS;
	assert_int_equal(peer_hello(polite), 0);
	assert_false(peer_recv(mute, &r, NULL, 0));
	close(mute);
	assert_int_equal(daemon_control()->hello_timeouts, timeouts + 1);
	/* Who has said it goes on. */
	assert_int_equal(peer_handle(polite, CTL_PD_FREE, 0), EINVAL);
	close(polite);
	conf->hello_timeout = before;
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_has_a_limit_for_programs_and_one_for_users),
		cmocka_unit_test(objects_of_each_kind_are_counted),
		cmocka_unit_test(segments_of_mrs_are_metadata),
		cmocka_unit_test(queues_are_counted_for_the_user),
		cmocka_unit_test(subordinate_ids_are_their_owners),
		cmocka_unit_test(root_has_no_limits_of_users_unless_asked_for),
		cmocka_unit_test(who_does_not_say_hello_is_disconnected),
		cmocka_unit_test(a_program_gets_no_more_than_its_share),
		cmocka_unit_test(what_a_user_has_adds_up_to_2_63_at_most),
		cmocka_unit_test(all_programs_of_a_user_share),
		cmocka_unit_test(connections_are_counted_by_the_second),
	};

	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
