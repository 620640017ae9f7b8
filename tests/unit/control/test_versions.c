/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of other versions: those that daemons before this one wrote are read (records/N.bin, where N was their STREAM_VERSION), and of those that
 * a later one will write the first check says which daemon knows which version.
 *
 * The program whose records these are must stay as it is: a file has no descriptors, so those of the same program in this daemon take their place.
 * When a version is new, write its file: UROCE_WRITE_RECORDS=tests/unit/control/records build/tests/unit/control/test_control_versions
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/record.h"
#include "daemon.h"
#include "second.h"

enum { CM_PORT = 7471, QKEY = 0x1234567, SRQ_LIMIT = 3 };

struct program {
	struct peer p;
	uint32_t pd, cq, srq, ud, rc, ah, dm;
	int cm_fd;
};

static struct ctl_rsp
must(struct program *m, struct ctl_req q)
{
	struct ctl_rsp r;
	int fds[2] = { -1, -1 }, rc = peer_call(m->p.sock, &q, NULL, 0, &r, fds, 2);

	if (rc != 0)
		fail_msg("request %u: %d, %s", q.op, rc, rc > 0 ? r.message : "connection ended");
	if (q.op == CTL_CM_OPEN)
		m->cm_fd = fds[0];
	else if (fds[0] >= 0)
		peer_segment(&m->p, &r.cq_create.seg, fds[0]);
	return r;
}

static uint32_t
new_qp(struct program *m, uint32_t type, uint32_t srq)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);

	q.qp_create = (struct ctl_qp_create_req){ .type = type, .pd = m->pd, .send_cq = m->cq, .recv_cq = m->cq, .srq = srq, .cookie = 77,
						  .cap = { 8, 8, 2, 2, 64 } };
	return must(m, q).qp_create.handle;
}

static void
ud_to(struct program *m, uint32_t state)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);

	q.qp_modify.handle = m->ud;
	q.qp_modify.mask = UROCE_QP_STATE;
	q.qp_modify.attr = (struct uroce_qp_attr){ .qp_state = state, .port_num = 1, .qkey = QKEY };
	if (state == UROCE_QPS_INIT)
		q.qp_modify.mask |= UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY;
	if (state == UROCE_QPS_RTS)
		q.qp_modify.mask |= UROCE_QP_SQ_PSN;
	must(m, q);
}

static void
begin_cm(struct program *m)
{
	struct ctl_req q = peer_req(CTL_CM_OPEN);
	uint32_t id;

	must(m, q);
	q = peer_req(CTL_CM_CREATE_ID);
	q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = UROCE_QPT_RC };
	id = must(m, q).handle.handle;
	q = peer_req(CTL_CM_BIND);
	q.cm_bind = (struct ctl_cm_bind_req){ .id = id, .addr = { .family = 4, .port = CM_PORT } };
	must(m, q);
	q = peer_req(CTL_CM_LISTEN);
	q.cm_listen = (struct ctl_cm_listen_req){ .id = id, .backlog = 3 };
	must(m, q);
}

static void
begin(struct program *m)
{
	struct ctl_req q = peer_req(CTL_CQ_CREATE);

	*m = (struct program){ .cm_fd = -1 };
	peer_open(&m->p);
	m->pd = peer_pd(m->p.sock);
	q.cq_create = (struct ctl_cq_create_req){ .cqe = 16, .cookie = 5 };
	m->cq = must(m, q).cq_create.handle;
	q = peer_req(CTL_SRQ_CREATE);
	q.srq_create = (struct ctl_srq_create_req){ .pd = m->pd, .max_wr = 16, .max_sge = 2, .limit = SRQ_LIMIT };
	m->srq = must(m, q).srq_create.handle;
	m->rc = new_qp(m, UROCE_QPT_RC, m->srq);
	m->ud = new_qp(m, UROCE_QPT_UD, UINT32_MAX);
	for (uint32_t state = UROCE_QPS_INIT; state <= UROCE_QPS_RTS; state++)
		ud_to(m, state);
	q = peer_req(CTL_AH_CREATE);
	q.ah_create.pd = m->pd;
	q.ah_create.attr = (struct uroce_ah_attr){ .is_global = 1, .port_num = 1, .sgid_index = 2, .hop_limit = 4,
						   .dgid = { 0xff, 0x0e, [13] = 0x18, [15] = 1 } };
	m->ah = must(m, q).handle.handle;
	q = peer_req(CTL_DM_ALLOC);
	q.dm_alloc.length = 4096;
	m->dm = must(m, q).dm_alloc.handle;
	q = peer_req(CTL_DM_REG);
	q.dm_reg = (struct ctl_dm_reg_req){ .pd = m->pd, .dm = m->dm, .offset = 1024, .length = 512, .access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_ZERO_BASED };
	must(m, q);
	q = peer_req(CTL_MW_ALLOC);
	q.mw_alloc = (struct ctl_mw_alloc_req){ .pd = m->pd, .type = 1 };
	must(m, q);
	begin_cm(m);
}

static void
end(struct program *m)
{
	peer_close(&m->p);
	close(m->cm_fd);
}

static FILE *
open_records(const char *folder, unsigned int version, const char *mode)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u.bin", folder, version);
	f = fopen(path, mode);
	if (f == NULL)
		fail_msg("%s: %s", path, strerror(errno));
	return f;
}

/** @return the records of @p version; *@p n bytes. */
static uint8_t *
read_records(unsigned int version, size_t *n)
{
	FILE *f = open_records(RECORDS_DIR, version, "re");
	enum { ROOM = 1 << 18 };
	uint8_t *bytes = aligned_alloc(64, ROOM);

	*n = fread(bytes, 1, ROOM, f);
	assert_true(*n > 0 && *n < ROOM);
	fclose(f);
	return bytes;
}

/** The socket has another name in each run. The record of the stack, which has it, is the first one. */
static void
rename_socket(uint8_t *bytes)
{
	static const char begin[] = "/tmp/uroce-test-";
	struct record_head *r = (void *)bytes;
	char *name = memmem(bytes, r->size, begin, strlen(begin));

	assert_non_null(name);
	memset(name, 0, strlen(name));
	memcpy(name, daemon_socket(), strlen(daemon_socket()));
	record_seal(r, (enum record_kind)r->kind, r->version, r->size);
}

/** The program goes on with what a daemon of that version wrote of it. */
static void
goes_on_with(unsigned int version)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);
	struct second_stream records;
	struct program m;
	uint8_t *bytes;
	FILE *f;

	begin(&m);
	second_read(&records, 1, 2);
	if (getenv("UROCE_WRITE_RECORDS") != NULL && version == STREAM_VERSION) {
		f = open_records(getenv("UROCE_WRITE_RECORDS"), version, "we");
		assert_int_equal(fwrite(records.o.bytes, 1, records.o.n, f), records.o.n);
		fclose(f);
	}
	bytes = read_records(version, &records.in.n);
	rename_socket(bytes);
	records.in.bytes = bytes;
	second_start(&records);
	q.handle.handle = m.ud;
	assert_int_equal(must(&m, q).qp_query.attr.qp_state, UROCE_QPS_RTS);
	q.handle.handle = m.rc;
	assert_int_equal(must(&m, q).qp_query.attr.qp_state, UROCE_QPS_RESET);
	q = peer_req(CTL_SRQ_QUERY);
	q.handle.handle = m.srq;
	assert_int_equal(must(&m, q).srq_query.limit, SRQ_LIMIT);
	assert_int_equal(peer_handle(m.p.sock, CTL_AH_DESTROY, m.ah), 0);
	assert_int_equal(peer_handle(m.p.sock, CTL_DM_FREE, m.dm), EBUSY);
	assert_int_equal(peer_handle(m.p.sock, CTL_QP_DESTROY, m.rc), 0);
	assert_int_equal(peer_handle(m.p.sock, CTL_SRQ_DESTROY, m.srq), 0);
	end(&m);
	second_end(&records);
	free(bytes);
}

static void
records_of_this_version_and_those_before_are_read(void **state)
{
	for (unsigned int version = 1; version <= STREAM_VERSION; version++)
		goes_on_with(version);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_of_this_version_and_those_before_are_read),
	};

	return DAEMON_TESTS(tests, 16, 64, NULL);
}
