/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: registered anew, of any size, in parent domains, across fork. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

enum { ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* Two QPs of a PD, connected to each other. */
struct loop {
	struct ibv_cq *cq;
	struct ibv_qp *qp, *peer;
};

static void
loop_make(struct vt *t, struct ibv_pd *pd, struct loop *l)
{
	struct vt other = *t;

	other.pd = pd;
	l->cq = vt_cq(t, 4 * VT_DEPTH, NULL);
	l->qp = vt_qp(&other, IBV_QPT_RC, l->cq, l->cq);
	l->peer = vt_qp(&other, IBV_QPT_RC, l->cq, l->cq);
	vt_connect(t, l->qp, l->peer);
	vt_connect(t, l->peer, l->qp);
}

static void
loop_unmake(struct loop *l)
{
	vt_destroy_qp(l->qp);
	vt_destroy_qp(l->peer);
	vt_destroy_cq(l->cq);
}

/* RDMA WRITE between two regions. @return the status of its completion. */
static enum ibv_wc_status
write_between(struct loop *l, struct ibv_mr *from, void *src, uint32_t rkey, void *dst, uint32_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)src, .length = bytes, .lkey = from->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)dst, .rkey = rkey },
	}, *bad;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	VT_OK(ibv_post_send(l->qp, &wr, &bad));
	vt_poll(l->cq, &wc);
	return wc.status;
}

static void
again(struct vt *t, struct loop *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	VT_OK(ibv_modify_qp(l->qp, &attr, IBV_QP_STATE));
	VT_OK(ibv_modify_qp(l->peer, &attr, IBV_QP_STATE));
	vt_connect(t, l->qp, l->peer);
	vt_connect(t, l->peer, l->qp);
}

static uint8_t *
pages(unsigned int n)
{
	uint8_t *p = mmap(NULL, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		vt_die("mmap");
	for (unsigned int i = 0; i < n * 4096; i++)
		p[i] = i * 3 + 1;
	return p;
}

/* All combinations of what a region can be given anew: it is what it was given then, and nothing else. */
static void
every_combination_of_rereg(struct vt *t)
{
	struct ibv_pd *other = ibv_alloc_pd(t->ctx);
	uint8_t *a = pages(4), *b = pages(4);
	struct loop mine, theirs;

	for (int flags = 1; flags < 8; flags++) {
		bool pd = flags & IBV_REREG_MR_CHANGE_PD, move = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
		bool access = flags & IBV_REREG_MR_CHANGE_ACCESS;
		struct ibv_mr *mr = ibv_reg_mr(t->pd, a, 8192, ALL_ACCESS), *their_buf = NULL;
		uint8_t *at = move ? b : a;
		uint32_t old_key, bytes = move ? 4 * 4096 : 8192;
		struct loop *owner = pd ? &theirs : &mine, *stranger = pd ? &mine : &theirs;

		loop_make(t, t->pd, &mine);
		loop_make(t, other, &theirs);
		their_buf = ibv_reg_mr(other, t->buf, VT_BUFFER_BYTES, ALL_ACCESS);
		if (mr == NULL || their_buf == NULL)
			vt_die("ibv_reg_mr");
		old_key = mr->rkey;
		VT_OK(ibv_rereg_mr(mr, flags, other, b, 4 * 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
		VT_CHECK(mr->pd == (pd ? other : t->pd) && mr->addr == at && mr->length == bytes, "flags %d: fields", flags);
		/* Peers that know them go on. */
		VT_CHECK(mr->rkey == old_key && mr->lkey == old_key, "flags %d: keys", flags);
		/* To its last byte, for its own PD, as its access says. */
		memset(t->buf, flags, 100);
		VT_CHECK(write_between(owner, pd ? their_buf : t->mr, t->buf, mr->rkey, at + bytes - 100, 100) ==
			 (access ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS), "flags %d: write", flags);
		if (!access)
			VT_CHECK(at[bytes - 1] == flags, "flags %d: another place", flags);
		again(t, owner);
		VT_CHECK(write_between(owner, mr, at + 4096, pd ? their_buf->rkey : t->mr->rkey, t->buf + 4096, 100) ==
			 IBV_WC_SUCCESS, "flags %d: as a source", flags);
		VT_CHECK(memcmp(t->buf + 4096, at + 4096, 100) == 0, "flags %d: other bytes", flags);
		VT_CHECK(write_between(stranger, pd ? t->mr : their_buf, t->buf, mr->rkey, at, 10) == IBV_WC_REM_ACCESS_ERR,
			 "flags %d: a QP of the other PD", flags);
		if (move)
			VT_CHECK(write_between(owner, pd ? their_buf : t->mr, t->buf, mr->rkey, a, 10) ==
				 IBV_WC_REM_ACCESS_ERR, "flags %d: where it was", flags);
		again(t, stranger);
		again(t, owner);
		VT_OK(ibv_dereg_mr(mr));
		VT_OK(ibv_dereg_mr(their_buf));
		loop_unmake(&mine);
		loop_unmake(&theirs);
	}
	VT_OK(ibv_dealloc_pd(other));
	munmap(a, 4 * 4096);
	munmap(b, 4 * 4096);
}

static void
regions_of_any_size(struct vt *t)
{
	const size_t huge = (size_t)1 << 30;
	uint8_t *p = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	static const size_t sizes[] = { 0, 1, 7, 4095, 4096, 4097, 12345, 1 << 21, 1 << 28 };
	static const size_t offsets[] = { 0, 1, 4095, 123456 };
	struct loop l;

	loop_make(t, t->pd, &l);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned int k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
			uint8_t *at = p + offsets[k];
			struct ibv_mr *mr = ibv_reg_mr(t->pd, at, sizes[i], ALL_ACCESS);

			VT_CHECK(mr != NULL, "%zu bytes: %s", sizes[i], strerror(errno));
			if (mr == NULL)
				continue;
			VT_CHECK(mr->addr == at && mr->length == sizes[i], "fields");
			t->buf[0] = sizes[i] + k;
			/* Not a byte more than it has. */
			if (sizes[i] > 0) {
				VT_CHECK(write_between(&l, t->mr, t->buf, mr->rkey, at + sizes[i] - 1, 1) == IBV_WC_SUCCESS &&
					 at[sizes[i] - 1] == t->buf[0], "%zu bytes", sizes[i]);
			}
			VT_CHECK(write_between(&l, t->mr, t->buf, mr->rkey, at, 0) == IBV_WC_SUCCESS, "0 of %zu bytes", sizes[i]);
			VT_CHECK(write_between(&l, t->mr, t->buf, mr->rkey, at + sizes[i], 1) == IBV_WC_REM_ACCESS_ERR,
				 "behind %zu bytes", sizes[i]);
			again(t, &l);
			VT_OK(ibv_dereg_mr(mr));
		}
	}
	loop_unmake(&l);
	munmap(p, huge);
}

static void
a_parent_domain_goes_for_its_pd(struct vt *t)
{
	struct ibv_td_init_attr tattr = { 0 };
	struct ibv_td *td = ibv_alloc_td(t->ctx, &tattr);
	struct ibv_parent_domain_init_attr attr = { .pd = t->pd, .td = td };
	struct ibv_pd *domain = ibv_alloc_parent_domain(t->ctx, &attr);
	struct ibv_cq_init_attr_ex cattr = { .cqe = 16, .parent_domain = domain, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_cq_ex *cq;
	struct ibv_mr *mr;
	struct loop l;

	VT_CHECK(td != NULL && domain != NULL && domain != t->pd, "%s", strerror(errno));
	if (domain == NULL)
		return;
	cq = ibv_create_cq_ex(t->ctx, &cattr);
	VT_CHECK(cq != NULL, "%s", strerror(errno));
	if (cq != NULL)
		vt_destroy_cq(ibv_cq_ex_to_cq(cq));
	loop_make(t, domain, &l);
	mr = ibv_reg_mr(domain, t->buf, VT_BUFFER_BYTES, ALL_ACCESS);
	if (mr == NULL)
		vt_die("ibv_reg_mr");
	t->buf[0] = 99;
	VT_CHECK(write_between(&l, t->mr, t->buf, mr->rkey, t->buf + 100, 1) == IBV_WC_SUCCESS && t->buf[100] == 99,
		 "between the PD and its parent domain");
	VT_OK(ibv_dereg_mr(mr));
	loop_unmake(&l);
	VT_OK(ibv_dealloc_pd(domain));
	VT_OK(ibv_dealloc_td(td));
}

/* ---- fork ---- */
static void
child_must_succeed(pid_t child, const char *what)
{
	int status = -1;

	VT_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: 0x%x", what,
		 status);
}

static void
a_child_has_the_memory_as_it_was(struct vt *t)
{
	uint8_t *p = pages(8);
	struct ibv_mr *mr = ibv_reg_mr(t->pd, p + 100, 7 * 4096, ALL_ACCESS);
	struct loop l;
	int go[2];
	pid_t child;

	if (mr == NULL || pipe(go) != 0)
		vt_die("ibv_reg_mr");
	loop_make(t, t->pd, &l);
	for (int round = 0; round < 20; round++) {
		p[5000] = 1;
		t->buf[0] = 2;
		child = fork();
		if (child == 0) {
			char c;
			bool right = read(go[0], &c, 1) == 1 && p[5000] == 1;

			/* What the child writes is its own. */
			memset(p, 77, 8 * 4096);
			_exit(right ? 0 : 1);
		}
		/* Written by the peer while the child has its copy: by the engine, not by us. */
		VT_CHECK(write_between(&l, t->mr, t->buf, mr->rkey, p + 5000, 1) == IBV_WC_SUCCESS && p[5000] == 2, "the parent's");
		VT_CHECK(write(go[1], "x", 1) == 1, "pipe");
		child_must_succeed(child, "the child's memory changed with the parent's");
		VT_CHECK(p[5000] == 2 && p[0] == 1, "the parent's memory changed with the child's");
		VT_CHECK(write_between(&l, t->mr, t->buf, mr->rkey, p + 6000, 1) == IBV_WC_SUCCESS && p[6000] == 2,
			 "after the fork");
	}
	loop_unmake(&l);
	VT_OK(ibv_dereg_mr(mr));
	munmap(p, 8 * 4096);
	close(go[0]);
	close(go[1]);
}

static void
a_child_that_execs_is_no_matter(struct vt *t)
{
	uint8_t *p = pages(2);
	struct ibv_mr *mr = ibv_reg_mr(t->pd, p, 8192, ALL_ACCESS);
	struct loop l;
	pid_t child;

	if (mr == NULL)
		vt_die("ibv_reg_mr");
	loop_make(t, t->pd, &l);
	for (int round = 0; round < 10; round++) {
		child = round % 2 ? vfork() : fork();
		if (child == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		t->buf[0] = round;
		VT_CHECK(write_between(&l, t->mr, t->buf, mr->rkey, p + 10, 1) == IBV_WC_SUCCESS && p[10] == round, "round %d",
			 round);
		child_must_succeed(child, "exec");
	}
	loop_unmake(&l);
	VT_OK(ibv_dereg_mr(mr));
	munmap(p, 8192);
}

static void
a_child_has_a_device_of_its_own(struct vt *t)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	pid_t child = fork();

	if (child == 0) {
		/* The parent's objects aren't the child's; a device that it opens is. */
		if (ibv_alloc_pd(t->ctx) != NULL)
			_exit(1);
		list = ibv_get_device_list(NULL);
		ctx = list != NULL && list[0] != NULL ? ibv_open_device(list[0]) : NULL;
		if (ctx == NULL)
			_exit(2);
		struct ibv_pd *pd = ibv_alloc_pd(ctx);
		struct ibv_mr *mr = pd != NULL ? ibv_reg_mr(pd, t->buf, VT_BUFFER_BYTES, ALL_ACCESS) : NULL;

		_exit(mr != NULL && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(ctx) == 0 ? 0 : 3);
	}
	child_must_succeed(child, "a device in a child");
}

static void
fork_init_is_always_right(struct vt *t)
{
	VT_OK(ibv_fork_init());
	VT_CHECK(ibv_is_fork_initialized() != IBV_FORK_DISABLED, "%d", ibv_is_fork_initialized());
}

/* A null MR is read as zeros and drops what it gets, wherever an SGE says. It is no peer's. */
static void
a_null_mr_has_any_address_and_no_content(struct vt *t)
{
	const uint64_t addresses[] = { 0, 0x1234, UINT64_MAX - 2 };
	struct ibv_mr *null = ibv_alloc_null_mr(t->pd), *mr;
	uint8_t *p = pages(1), zeros[16] = { 0 };
	struct ibv_sge sges[VT_SGES];
	struct ibv_send_wr wr = { .sg_list = sges, .num_sge = VT_SGES, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct loop l;

	mr = ibv_reg_mr(t->pd, p, 4096, ALL_ACCESS);
	if (null == NULL || mr == NULL)
		vt_die("a null MR");
	loop_make(t, t->pd, &l);
	for (unsigned int i = 0; i < 3; i++) {
		memset(p, 0x55, 64);
		VT_CHECK(write_between(&l, null, (void *)(uintptr_t)addresses[i], mr->rkey, p, 16) == IBV_WC_SUCCESS, "address %u", i);
		VT_CHECK(memcmp(p, zeros, 16) == 0 && p[16] == 0x55, "not zeros");
		/* The first eight bytes of what is read are dropped. */
		p[100] = 1;
		p[108] = 2;
		sges[0] = (struct ibv_sge){ addresses[i], 8, null->lkey };
		sges[1] = (struct ibv_sge){ (uintptr_t)p, 8, mr->lkey };
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = (uintptr_t)(p + 100);
		wr.wr.rdma.rkey = mr->rkey;
		VT_OK(ibv_post_send(l.qp, &wr, &bad));
		vt_expect(l.cq, 0, IBV_WC_SUCCESS);
		VT_CHECK(p[0] == 2, "%u", p[0]);
	}
	VT_CHECK(write_between(&l, mr, p, null->lkey, NULL, 16) == IBV_WC_REM_ACCESS_ERR, "a peer uses it");
	again(t, &l);
	VT_OK(ibv_dereg_mr(null));
	loop_unmake(&l);
	VT_OK(ibv_dereg_mr(mr));
	munmap(p, 4096);
}

static struct ibv_dm *
dm_new(struct vt *t, size_t bytes)
{
	struct ibv_alloc_dm_attr attr = { .length = bytes, .log_align_req = 6 };

	return ibv_alloc_dm(t->ctx, &attr);
}

/* Peers and work requests use device memory by its offsets; a program by copies. */
static void
device_memory_is_written_and_read_by_peers(struct vt *t)
{
	enum { ACCESS = ALL_ACCESS | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED };
	struct ibv_dm *dm = dm_new(t, 4096);
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_mr *mr, *of_dm;
	uint64_t word = 40;
	uint8_t *p = pages(1), got[100];
	struct loop l;

	mr = ibv_reg_mr(t->pd, p, 4096, ALL_ACCESS);
	of_dm = dm != NULL ? ibv_reg_dm_mr(t->pd, dm, 64, 1024, ACCESS) : NULL;
	if (mr == NULL || of_dm == NULL)
		vt_die("device memory");
	loop_make(t, t->pd, &l);
	VT_CHECK(write_between(&l, mr, p, of_dm->rkey, (void *)8, 100) == IBV_WC_SUCCESS, "a write to it");
	VT_OK(ibv_memcpy_from_dm(got, dm, 64 + 8, 100));
	VT_CHECK(memcmp(got, p, 100) == 0, "other bytes than were written");
	VT_CHECK(write_between(&l, of_dm, (void *)8, mr->rkey, p + 1000, 100) == IBV_WC_SUCCESS, "a write from it");
	VT_CHECK(memcmp(p + 1000, p, 100) == 0, "other bytes than were in it");
	VT_OK(ibv_memcpy_to_dm(dm, 64, &word, 8));
	sge.addr = (uintptr_t)(p + 2048);
	sge.lkey = mr->lkey;
	wr.wr.atomic.rkey = of_dm->rkey;
	wr.wr.atomic.compare_add = 2;
	VT_OK(ibv_post_send(l.qp, &wr, &bad));
	vt_expect(l.cq, 0, IBV_WC_SUCCESS);
	VT_OK(ibv_memcpy_from_dm(&word, dm, 64, 8));
	VT_CHECK(word == 42, "%llu", (unsigned long long)word);
	VT_CHECK(write_between(&l, mr, p, of_dm->rkey, (void *)1000, 100) == IBV_WC_REM_ACCESS_ERR, "beyond the MR, inside the memory");
	again(t, &l);
	VT_CHECK(ibv_free_dm(dm) == EBUSY, "an MR is left");
	VT_OK(ibv_dereg_mr(of_dm));
	VT_OK(ibv_free_dm(dm));
	loop_unmake(&l);
	VT_OK(ibv_dereg_mr(mr));
	munmap(p, 4096);
}

/* A program has max_dm_size in all, and what it frees comes back as zeros. */
static void
device_memory_ends_and_comes_back(struct vt *t)
{
	struct ibv_device_attr_ex a;
	struct ibv_dm *dms[4];
	uint32_t word = 7;

	VT_OK(ibv_query_device_ex(t->ctx, NULL, &a));
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++) {
			dms[i] = dm_new(t, a.max_dm_size / 4);
			if (dms[i] == NULL)
				vt_die("ibv_alloc_dm");
			VT_OK(ibv_memcpy_from_dm(&word, dms[i], 0, 4));
			VT_CHECK(word == 0, "the memory has been used before");
			word = 7;
			VT_OK(ibv_memcpy_to_dm(dms[i], 0, &word, 4));
		}
		VT_CHECK(dm_new(t, 4) == NULL && errno == ENOMEM, "more than max_dm_size: %s", strerror(errno));
		for (int i = 0; i < 4; i++)
			VT_OK(ibv_free_dm(dms[i]));
	}
}

int
main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		VT_CASE(every_combination_of_rereg), VT_CASE(regions_of_any_size), VT_CASE(a_parent_domain_goes_for_its_pd),
		VT_CASE(fork_init_is_always_right), VT_CASE(a_child_has_the_memory_as_it_was),
		VT_CASE(a_child_that_execs_is_no_matter), VT_CASE(a_child_has_a_device_of_its_own),
		VT_CASE(a_null_mr_has_any_address_and_no_content), VT_CASE(device_memory_is_written_and_read_by_peers),
		VT_CASE(device_memory_ends_and_comes_back),
	};

	return vt_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
