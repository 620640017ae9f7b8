/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects by the control protocol: what is refused, what depends on what, what goes when. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon.h"

enum { MAX_SESSIONS = 40, MAX_QP = 1000 };

static void
invented_handles_are_refused(void **state)
{
	static const uint32_t ops[] = { CTL_PD_FREE,    CTL_MR_DEREG,   CTL_CQ_DESTROY, CTL_SRQ_DESTROY, CTL_SRQ_QUERY,
					CTL_SRQ_MODIFY, CTL_QP_QUERY,   CTL_QP_DESTROY, CTL_QP_MODIFY,   CTL_AH_DESTROY,
					CTL_QP_CREATE,  CTL_SRQ_CREATE, CTL_AH_CREATE,   CTL_MW_ALLOC,
					CTL_MW_FREE,    CTL_XRCD_CLOSE, CTL_MR_NULL,     CTL_DM_FREE,
					CTL_DM_REG };
	struct ctl_req q;
	struct ctl_rsp r;
	struct peer p;
	uint32_t h;
	size_t i;

	peer_open(&p);
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		for (h = 1; h != 0; h <<= 1) {
			q = peer_req(ops[i]);
			if (ops[i] == CTL_QP_CREATE)
				q.qp_create.pd = h;
			else if (ops[i] == CTL_SRQ_CREATE)
				q.srq_create.pd = h;
			else
				q.handle.handle = h;
			assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
		}
	}
	peer_close(&p);
	daemon_assert_well();
}

static void
one_sessions_handles_are_nothing_to_another(void **state)
{
	struct ctl_req q;
	struct ctl_rsp r;
	struct peer a, b;
	uint32_t pd, i;

	peer_open(&a);
	peer_open(&b);
	for (i = 0; i < 5; i++)
		pd = peer_pd(a.sock);
	q = peer_req(CTL_PD_FREE);
	q.handle.handle = pd;
	assert_int_equal(peer_call(b.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	assert_int_equal(peer_call(a.sock, &q, NULL, 0, &r, NULL, 0), 0);
	assert_int_equal(peer_call(a.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	peer_close(&a);
	peer_close(&b);
	daemon_assert_well();
}

static void
sizes_beyond_the_limits_are_refused(void **state)
{
	struct ctl_req q;
	struct ctl_rsp r;
	struct peer p;
	uint32_t pd, cq;

	peer_open(&p);
	pd = peer_pd(p.sock);
	cq = peer_cq(&p, 100).handle;
	q = peer_req(CTL_CQ_CREATE);
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q.cq_create.cqe = UROCE_MAX_CQE + 1;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, UROCE_MAX_QP_WR + 1, 1, 0), EINVAL);
	assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, UINT32_MAX, 1, 0), EINVAL);
	assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, 1, UROCE_MAX_SGE + 1, 0), EINVAL);
	assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, 1, 1, UROCE_MAX_INLINE + 1), EINVAL);
	assert_int_equal(peer_try_qp(&p, 77, pd, cq, 1, 1, 0), EOPNOTSUPP);
	assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, UROCE_MAX_QP_WR, UROCE_MAX_SGE, UROCE_MAX_INLINE), 0);
	assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, 0, 0, 0), 0);
	peer_close(&p);
	daemon_assert_well();
}

static int
reg(struct peer *p, uint32_t pd, uint32_t access, const struct ctl_seg *segs, uint32_t n, uint32_t *handle)
{
	static uint8_t buf[CTL_REQ_BYTES + 16 * sizeof(struct ctl_seg)];
	struct ctl_req *q = (void *)buf;
	struct ctl_rsp r;

	*q = peer_req(CTL_MR_REG);
	q->mr_reg.pd = pd;
	q->mr_reg.access = access;
	q->mr_reg.addr = q->mr_reg.iova = segs[0].va;
	q->mr_reg.length = segs[n - 1].va + segs[n - 1].length - segs[0].va;
	q->mr_reg.nb_segs = q->mr_reg.nb_in_msg = n;
	memcpy(buf + CTL_REQ_BYTES, segs, n * sizeof(*segs));
	assert_int_equal(peer_send(p->sock, buf, CTL_REQ_BYTES + n * sizeof(*segs), NULL, 0), 0);
	assert_true(peer_recv(p->sock, &r, NULL, 0));
	if (r.status == 0)
		*handle = r.mr_reg.handle;
	return r.status;
}

static void
segments_that_make_no_sense_are_refused(void **state)
{
	const uint64_t va = 0x10000000, end = UINT64_C(1) << 46;
	const struct {
		struct ctl_seg s[2];
		uint32_t n;
	} bad[] = {
		{ { { .va = va, .length = 0, .kind = CTL_SEG_REMOTE } }, 1 },
		{ { { .va = va, .length = UINT64_MAX, .kind = CTL_SEG_REMOTE } }, 1 },
		{ { { .va = va, .length = 10, .kind = 0 } }, 1 },
		{ { { .va = va, .length = 10, .kind = 4 } }, 1 },
		{ { { .va = va, .length = 4096, .offset = end, .kind = CTL_SEG_CONVERTED } }, 1 },
		{ { { .va = va, .length = 4097, .offset = end - 4096, .kind = CTL_SEG_CONVERTED } }, 1 },
		{ { { .va = va, .length = 8192, .offset = UINT64_MAX - 4095, .kind = CTL_SEG_CONVERTED } }, 1 },
		{ { { .va = va, .length = 4096, .offset = 1, .kind = CTL_SEG_CONVERTED } }, 1 },
		{ { { .va = va, .length = 10, .kind = CTL_SEG_REMOTE },
		    { .va = va + 11, .length = 5, .kind = CTL_SEG_REMOTE } },
		  2 },
		{ { { .va = va, .length = 10, .kind = CTL_SEG_REMOTE },
		    { .va = va + 9, .length = 5, .kind = CTL_SEG_REMOTE } },
		  2 },
		{ { { .va = va, .length = 4096, .kind = CTL_SEG_SHARED, .map_start = va, .map_end = va } }, 1 },
		{ { { .va = va, .length = 8192, .kind = CTL_SEG_SHARED, .map_start = va, .map_end = va + 4096 } }, 1 },
		{ { { .va = va,
		      .length = 10,
		      .offset = 5,
		      .kind = CTL_SEG_SHARED,
		      .map_start = va,
		      .map_end = va + 4096 } },
		  1 },
	};
	struct ctl_req q = peer_req(CTL_MR_REG);
	struct ctl_rsp r;
	struct peer p;
	uint32_t pd, h;
	size_t i;

	peer_open(&p);
	pd = peer_pd(p.sock);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(reg(&p, pd, UROCE_ACCESS_LOCAL_WRITE, bad[i].s, bad[i].n, &h), EINVAL);
	/* Segments that never came. */
	q.mr_reg.pd = pd;
	q.mr_reg.nb_segs = 5;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q.mr_reg.nb_segs = UINT32_MAX;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	/* A mapping that isn't ours, and access bits that contradict each other. */
	assert_int_equal(
		reg(&p, pd, 0,
		    &(struct ctl_seg){
			    .va = va, .length = 4096, .kind = CTL_SEG_SHARED, .map_start = va, .map_end = va + 4096 },
		    1, &h),
		EOPNOTSUPP);
	assert_int_equal(reg(&p, pd, UROCE_ACCESS_REMOTE_WRITE,
			     &(struct ctl_seg){ .va = va, .length = 4096, .kind = CTL_SEG_REMOTE }, 1, &h),
			 EINVAL);
	assert_int_equal(daemon_counts().control.mrs, 0);
	peer_close(&p);
	daemon_assert_well();
}

static int
dm_alloc(struct peer *p, uint64_t length, uint32_t log_align, uint32_t *handle)
{
	struct ctl_req q = peer_req(CTL_DM_ALLOC);
	struct ctl_rsp r;
	int fd = -1, rc;

	q.dm_alloc = (struct ctl_dm_alloc_req){ .length = length, .log_align = log_align };
	rc = peer_call(p->sock, &q, NULL, 0, &r, &fd, 1);
	if (fd >= 0)
		close(fd);
	if (rc == 0) {
		*handle = r.dm_alloc.handle;
		assert_int_equal(r.dm_alloc.memory.length, length);
		assert_int_equal(r.dm_alloc.memory.offset % (1u << log_align), 0);
	}
	return rc;
}

static int
dm_reg(struct peer *p, struct ctl_dm_reg_req reg, uint32_t *mr)
{
	struct ctl_req q = peer_req(CTL_DM_REG);
	struct ctl_rsp r;
	int rc;

	q.dm_reg = reg;
	rc = peer_call(p->sock, &q, NULL, 0, &r, NULL, 0);
	*mr = r.mr_reg.handle;
	return rc;
}

static void
device_memory_is_one_sessions_and_limited(void **state)
{
	enum { ACCESS = UROCE_ACCESS_ZERO_BASED | UROCE_ACCESS_LOCAL_WRITE };
	const struct ctl_seg seg = { .va = 0x10000000, .length = 10, .kind = CTL_SEG_REMOTE };
	static uint8_t again[CTL_REQ_BYTES + sizeof(seg)];
	struct ctl_req *q = (void *)again;
	uint32_t pd, dm, other, mr, null;
	struct ctl_rsp r;
	struct peer p, b;

	peer_open(&p);
	peer_open(&b);
	pd = peer_pd(p.sock);
	assert_int_equal(dm_alloc(&p, 0, 0, &dm), EINVAL);
	assert_int_equal(dm_alloc(&p, UROCE_MAX_DM_BYTES + 1, 0, &dm), EINVAL);
	assert_int_equal(dm_alloc(&p, UINT64_MAX, 0, &dm), EINVAL);
	assert_int_equal(dm_alloc(&p, 1, UROCE_MAX_DM_LOG_ALIGN + 1, &dm), EINVAL);
	assert_int_equal(dm_alloc(&p, UROCE_MAX_DM_BYTES - 64, UROCE_MAX_DM_LOG_ALIGN, &dm), 0);
	assert_int_equal(dm_alloc(&p, 65, 0, &other), ENOMEM);
	assert_int_equal(dm_alloc(&p, 64, 0, &other), ENOMEM);
	/* Another program has its own. */
	assert_int_equal(dm_alloc(&b, UROCE_MAX_DM_BYTES, 0, &other), 0);
	assert_int_equal(peer_handle(b.sock, CTL_DM_FREE, other), 0);
	assert_int_equal(peer_handle(b.sock, CTL_DM_FREE, dm), EINVAL);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd + 7, .dm = dm, .length = 8, .access = ACCESS }, &mr), EINVAL);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd, .dm = dm + 7, .length = 8, .access = ACCESS }, &mr), EINVAL);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd, .dm = dm, .offset = UINT64_MAX, .length = 8, .access = ACCESS }, &mr),
			 EINVAL);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd, .dm = dm, .offset = 8, .length = UROCE_MAX_DM_BYTES - 64,
							     .access = ACCESS }, &mr), EINVAL);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd, .dm = dm, .length = 8, .access = UROCE_ACCESS_LOCAL_WRITE }, &mr),
			 EINVAL);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd, .dm = dm, .length = 8,
							     .access = ACCESS | UROCE_ACCESS_FLUSH_PERSISTENT }, &mr), EOPNOTSUPP);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd, .dm = dm, .offset = 8, .length = 8, .access = ACCESS }, &mr), 0);
	assert_int_equal(peer_handle(p.sock, CTL_DM_FREE, dm), EBUSY);
	/* Neither such an MR nor a null MR becomes one of the program's memory. */
	*q = peer_req(CTL_MR_NULL);
	q->handle.handle = pd;
	peer_must(p.sock, q, &r, NULL);
	null = r.mr_reg.handle;
	for (int i = 0; i < 2; i++) {
		*q = peer_req(CTL_MR_REG);
		q->mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .addr = seg.va, .iova = seg.va, .length = 10, .nb_segs = 1, .nb_in_msg = 1,
						     .replace = 1, .old = i == 0 ? mr : null };
		memcpy(again + CTL_REQ_BYTES, &seg, sizeof(seg));
		assert_int_equal(peer_send(p.sock, again, sizeof(again), NULL, 0), 0);
		assert_true(peer_recv(p.sock, &r, NULL, 0));
		assert_int_equal(r.status, EINVAL);
	}
	assert_int_equal(peer_handle(p.sock, CTL_MR_DEREG, mr), 0);
	assert_int_equal(peer_handle(p.sock, CTL_DM_FREE, dm), 0);
	assert_int_equal(peer_handle(p.sock, CTL_PD_FREE, pd), EBUSY);
	assert_int_equal(peer_handle(p.sock, CTL_MR_DEREG, null), 0);
	/* What a session leaves behind is freed in the right order. */
	assert_int_equal(dm_alloc(&p, 4096, 0, &dm), 0);
	assert_int_equal(dm_reg(&p, (struct ctl_dm_reg_req){ .pd = pd, .dm = dm, .length = 8, .access = ACCESS }, &mr), 0);
	peer_close(&p);
	peer_close(&b);
	daemon_assert_well();
}

/** A file of @p bytes, mapped; the segment that describes it. */
static struct ctl_seg
shared_seg(int fd, size_t bytes, int prot)
{
	uint8_t *m = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(m, MAP_FAILED);
	return (struct ctl_seg){
		.va = (uintptr_t)m,
		.length = bytes,
		.kind = CTL_SEG_SHARED,
		.map_start = (uintptr_t)m,
		.map_end = (uintptr_t)m + bytes,
	};
}

static void
only_shared_memory_that_the_program_may_write_is_mapped(void **state)
{
	char file[] = "/var/tmp/uroce-test-XXXXXX";
	int memfd = memfd_create("test", MFD_CLOEXEC), disk = mkstemp(file), ro, rc;
	struct ctl_seg s;
	struct peer p;
	uint32_t pd, h;
	char link[32];

	peer_open(&p);
	if (!p.dev.privileged) {
		peer_close(&p);
		skip();
	}
	pd = peer_pd(p.sock);
	assert_int_equal(ftruncate(memfd, 16384), 0);
	assert_int_equal(ftruncate(disk, 16384), 0);
	s = shared_seg(memfd, 16384, PROT_READ | PROT_WRITE);
	assert_int_equal(reg(&p, pd, UROCE_ACCESS_LOCAL_WRITE, &s, 1, &h), 0);
	/* Opened read-only: not for an MR that is written, even though the daemon could. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", memfd);
	ro = open(link, O_RDONLY | O_CLOEXEC);
	s = shared_seg(ro, 16384, PROT_READ);
	assert_int_equal(reg(&p, pd, UROCE_ACCESS_LOCAL_WRITE, &s, 1, &h), EFAULT);
	assert_int_equal(reg(&p, pd, UROCE_ACCESS_REMOTE_READ, &s, 1, &h), 0);
	/* A file on a disk is another file system's: the client falls back to remote access (unless /var/tmp is a
	 * tmpfs). */
	s = shared_seg(disk, 16384, PROT_READ | PROT_WRITE);
	rc = reg(&p, pd, UROCE_ACCESS_LOCAL_WRITE, &s, 1, &h);
	assert_true(rc == EOPNOTSUPP || rc == 0);
	unlink(file);
	close(memfd);
	close(disk);
	close(ro);
	peer_close(&p);
	daemon_assert_well();
}

static void
what_is_in_use_stays_until_its_users_go(void **state)
{
	struct ctl_req q = peer_req(CTL_PD_FREE);
	struct ctl_rsp r;
	struct ctl_cq_create_rsp cq;
	struct peer p;
	uint32_t pd;

	peer_open(&p);
	pd = peer_pd(p.sock);
	cq = peer_cq(&p, 10);
	assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq.handle, 1, 1, 0), 0);
	q.handle.handle = pd;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EBUSY);
	q = peer_req(CTL_CQ_DESTROY);
	q.handle.handle = cq.handle;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EBUSY);
	peer_close(&p);
	daemon_assert_well();
}

static void
everything_of_a_session_goes_with_its_connection(void **state)
{
	struct daemon_counts before, during, after;
	uint32_t pd, h, i, k;
	struct ctl_cq_create_rsp cq;
	struct ctl_seg s = { .length = 8192, .kind = CTL_SEG_CONVERTED };
	struct peer p;

	assert_true(daemon_wait_empty());
	before = daemon_counts();
	for (k = 0; k < 10; k++) {
		peer_open(&p);
		pd = peer_pd(p.sock);
		for (i = 0; i < 20; i++) {
			cq = peer_cq(&p, 100);
			assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq.handle, 16, 2, 0), 0);
			s.va = 0x40000000 + i * 65536;
			s.offset = i * 8192;
			assert_int_equal(reg(&p, pd, UROCE_ACCESS_LOCAL_WRITE, &s, 1, &h), 0);
		}
		during = daemon_counts();
		assert_int_equal(during.control.qps, 20);
		assert_int_equal(during.qps, 20);
		assert_int_equal(during.control.mrs, 20);
		assert_int_equal(during.mrs, 20);
		peer_close(&p);
		assert_true(daemon_wait_empty());
	}
	after = daemon_counts();
	assert_memory_equal(&before.control, &after.control, sizeof(before.control));
	assert_int_equal(after.qps, before.qps);
	assert_int_equal(after.mrs, before.mrs);
	assert_int_equal(after.fds, before.fds);
}

static void
an_ah_is_its_sessions_and_keeps_its_pd(void **state)
{
	struct ctl_req q = peer_req(CTL_AH_CREATE), d = peer_req(CTL_AH_DESTROY), f = peer_req(CTL_PD_FREE);
	struct ctl_rsp r;
	struct peer a, b;

	peer_open(&a);
	peer_open(&b);
	q.ah_create.pd = f.handle.handle = peer_pd(a.sock);
	q.ah_create.attr = (struct uroce_ah_attr){
		.dgid = { [10] = 0xff, 0xff, 198, 18, 0, 1 },
		.sgid_index = 1,
		.is_global = 1,
		.port_num = 1,
	};
	assert_int_equal(peer_call(a.sock, &q, NULL, 0, &r, NULL, 0), 0);
	assert_int_not_equal(r.handle.handle, 0);
	d.handle.handle = r.handle.handle;
	assert_int_equal(peer_call(b.sock, &d, NULL, 0, &r, NULL, 0), EINVAL);
	assert_int_equal(peer_call(a.sock, &f, NULL, 0, &r, NULL, 0), EBUSY);
	assert_int_equal(daemon_counts().control.ahs, 1);
	assert_int_equal(peer_call(a.sock, &d, NULL, 0, &r, NULL, 0), 0);
	assert_int_equal(peer_call(a.sock, &d, NULL, 0, &r, NULL, 0), EINVAL);
	q.ah_create.attr.is_global = 0;
	assert_int_equal(peer_call(a.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q.ah_create.attr.is_global = 1;
	q.ah_create.attr.sgid_index = 2; /* an IPv6 address */
	assert_int_equal(peer_call(a.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	assert_int_equal(peer_call(a.sock, &f, NULL, 0, &r, NULL, 0), 0);
	/* And one that is left behind. */
	q.ah_create.pd = peer_pd(b.sock);
	q.ah_create.attr.sgid_index = 1;
	assert_int_equal(peer_call(b.sock, &q, NULL, 0, &r, NULL, 0), 0);
	peer_close(&a);
	peer_close(&b);
	daemon_assert_well();
	assert_int_equal(daemon_counts().control.ahs, 0);
}

static void
the_limit_of_qps_holds_and_says_which_key(void **state)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_rsp r;
	struct peer p;
	uint32_t pd, cq, i;

	peer_open(&p);
	pd = peer_pd(p.sock);
	cq = peer_cq(&p, 10).handle;
	for (i = 0; i < MAX_QP; i++)
		assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, 1, 1, 0), 0);
	q.qp_create = (struct ctl_qp_create_req){
		.type = UROCE_QPT_RC, .pd = pd, .send_cq = cq, .recv_cq = cq, .srq = UINT32_MAX
	};
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), ENOMEM);
	assert_non_null(strstr(r.message, "daemon.max_qp"));
	peer_close(&p);
	daemon_assert_well();
}

/** A UD QP in INIT. @return the status of the last step. */
static int
init_ud(struct peer *p, uint16_t pkey_index, uint32_t qkey)
{
	struct ctl_req q = peer_req(CTL_PD_ALLOC);
	uint32_t pd, cq;
	struct ctl_rsp r;
	int fd = -1, rc;

	rc = peer_call(p->sock, &q, NULL, 0, &r, NULL, 0);
	if (rc != 0)
		return rc;
	pd = r.handle.handle;
	q = peer_req(CTL_CQ_CREATE);
	q.cq_create.cqe = 16;
	rc = peer_call(p->sock, &q, NULL, 0, &r, &fd, 1);
	if (rc != 0)
		return rc;
	cq = r.cq_create.handle;
	q = peer_req(CTL_QP_CREATE);
	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_UD, .pd = pd, .send_cq = cq, .recv_cq = cq,
						  .srq = UINT32_MAX, .cap = { 4, 4, 1, 1, 0 } };
	rc = peer_call(p->sock, &q, NULL, 0, &r, NULL, 0);
	if (rc != 0)
		return rc;
	q = peer_req(CTL_QP_MODIFY);
	q.qp_modify.handle = r.qp_create.handle;
	q.qp_modify.mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY;
	q.qp_modify.attr = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_INIT, .port_num = 1, .qkey = qkey,
						   .pkey_index = pkey_index };
	rc = peer_call(p->sock, &q, NULL, 0, &r, NULL, 0);
	close(fd);
	return rc;
}

static void
pkey_table_is_what_the_configuration_says(void **state)
{
	struct ctl_req q = peer_req(CTL_PORT_QUERY);
	struct ctl_rsp r;
	struct peer p;

	peer_open(&p);
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	assert_int_equal(r.port_query.pkey_tbl_len, 2);
	assert_int_equal(r.port_query.pkeys[0], 0xffff);
	assert_int_equal(r.port_query.pkeys[1], 0x8001);
	assert_int_equal(r.port_query.bad_pkey_cntr, 0);
	assert_int_equal(init_ud(&p, 0, 1), 0);
	assert_int_equal(init_ud(&p, 1, 1), 0);
	assert_int_equal(init_ud(&p, 2, 1), EINVAL);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

static void
controlled_qkeys_are_for_the_privileged(void **state)
{
	struct peer p;
	int status;
	pid_t pid;

	peer_open(&p);
	assert_int_equal(init_ud(&p, 0, 0x80010000), 0);
	peer_close(&p);
	assert_true(daemon_wait_empty());
	if (geteuid() != 0)
		return;
	/* Open to everybody, for somebody who isn't us. */
	assert_int_equal(chmod(daemon_socket(), 0666), 0);
	pid = fork();
	if (pid == 0) {
		/* Dumpable again, or it can't open its own memory. */
		if (setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
			_exit(1);
		peer_open(&p);
		_exit(init_ud(&p, 0, 0x7fffffff) == 0 && init_ud(&p, 0, 0x80010000) == EPERM ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(chmod(daemon_socket(), 0600), 0);
	assert_int_equal(status, 0);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(invented_handles_are_refused),
		cmocka_unit_test(one_sessions_handles_are_nothing_to_another),
		cmocka_unit_test(sizes_beyond_the_limits_are_refused),
		cmocka_unit_test(segments_that_make_no_sense_are_refused),
		cmocka_unit_test(device_memory_is_one_sessions_and_limited),
		cmocka_unit_test(only_shared_memory_that_the_program_may_write_is_mapped),
		cmocka_unit_test(what_is_in_use_stays_until_its_users_go),
		cmocka_unit_test(everything_of_a_session_goes_with_its_connection),
		cmocka_unit_test(pkey_table_is_what_the_configuration_says),
		cmocka_unit_test(controlled_qkeys_are_for_the_privileged),
		cmocka_unit_test(an_ah_is_its_sessions_and_keeps_its_pd),
		cmocka_unit_test(the_limit_of_qps_holds_and_says_which_key),
	};

	return DAEMON_TESTS(tests, MAX_SESSIONS, MAX_QP, NULL);
}
