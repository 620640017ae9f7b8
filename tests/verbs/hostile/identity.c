/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * identity request|peer ADDRESS QPN: with the number of another program's QP, ask its peer at ADDRESS for a connection
 * (request); or connect a QP of one's own to that QP of the peer (peer). Again and again; it ends if it succeeds.
 */
#include "stuck.h"
#include "vt.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

enum { RPING_PORT = 7174, RESOLVE_MS = 2000, PAUSE_US = 10000, BEGUN_AFTER = 10 };

static void
next(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(ch, &e) != 0 || e->event != type)
		attack_die("no such event");
	rdma_ack_cm_event(e);
}

/* The peer knows a connection by address and QP number, and takes one whose number comes again for stale. */
static void
attack_request(const char *address, uint32_t qpn)
{
	struct rdma_conn_param param = { .qp_num = qpn, .retry_count = 7, .rnr_retry_count = 7 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(RPING_PORT) };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;

	inet_pton(AF_INET, address, &a.sin_addr);
	for (unsigned int i = 0;; i++) {
		if (ch == NULL || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) != 0)
			attack_die("no id");
		if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, RESOLVE_MS) != 0)
			attack_die("address");
		next(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
		if (rdma_resolve_route(id, RESOLVE_MS) != 0)
			attack_die("route");
		next(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
		if (rdma_connect(id, &param) == 0)
			attack_die("a request in the name of another program's QP was sent");
		rdma_destroy_id(id);
		if (i == BEGUN_AFTER)
			attack_begun();
		usleep(PAUSE_US);
	}
}

static void
attack_peer(struct vt *t, const char *address, uint32_t qpn)
{
	struct ibv_cq *cq = vt_cq(t, VT_DEPTH, NULL);
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, cq);
	struct ibv_qp_attr a;
	int mask;

	for (unsigned int i = 0;; i++) {
		if (ibv_modify_qp(qp, &a, vt_attr_init(qp, &a)) != 0)
			attack_die("INIT");
		mask = vt_attr_rtr(t, qp, qpn, &a);
		inet_pton(AF_INET, address, a.ah_attr.grh.dgid.raw + 12);
		if (ibv_modify_qp(qp, &a, mask) == 0)
			attack_die("a QP was connected to the peer of another program's");
		a.qp_state = IBV_QPS_RESET;
		if (ibv_modify_qp(qp, &a, IBV_QP_STATE) != 0)
			attack_die("RESET");
		if (i == BEGUN_AFTER)
			attack_begun();
		usleep(PAUSE_US);
	}
}

int
main(int argc, char **argv)
{
	uint32_t qpn = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 0) : 0;
	struct vt t;

	if (qpn == 0)
		attack_die("usage: identity request|peer ADDRESS QPN");
	if (strcmp(argv[1], "request") == 0)
		attack_request(argv[2], qpn);
	vt_begin(&t);
	attack_peer(&t, argv[2], qpn);
}
