/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of telemetry commands, in a daemon with a session that has an object of each kind. The input is the number of the
 * command and the text. Captures are not begun: they would write files (--wrap of control_capture_start()).
 */
#include <stdio.h>
#include <stdlib.h>

#include "control/observe/capture.h"
#include "control/observe/telemetry_priv.h"
#include "daemon.h"

static tel_show_fn *const commands[] = { tel_config, tel_port,    tel_impair, tel_engine, tel_capture, tel_cm,
					 tel_memory, tel_handover, tel_session, tel_qp,     tel_cq,	  tel_mr };
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]), REFUSED = -1 };

static struct daemon_client client;

int __wrap_control_capture_start(struct control *c, const struct capture_params *p, int port, uint32_t qpn, char *err);

int
__wrap_control_capture_start(struct control *c, const struct capture_params *p, int port, uint32_t qpn, char *err)
{
	FUZZ_CHECK(port < daemon_stack->nb_ports);
	err[0] = '\0';
	return REFUSED;
}

/* Telemetry frees what is inside an answer when it has formatted it; here that is done at the end of the input. */
enum { ANSWERS = 4096 };
static struct rte_tel_data *answers[ANSWERS];
static unsigned int nb_answers;

struct rte_tel_data *__real_rte_tel_data_alloc(void);
struct rte_tel_data *__wrap_rte_tel_data_alloc(void);

struct rte_tel_data *
__wrap_rte_tel_data_alloc(void)
{
	FUZZ_CHECK(nb_answers < ANSWERS);
	return answers[nb_answers++] = __real_rte_tel_data_alloc();
}

static void
must(struct ctl_req *q, size_t size)
{
	FUZZ_CHECK(client_call(&client, q, size, NULL, 0) == 0);
}

/** An object of each kind. */
static void
make_objects(void)
{
	struct {
		struct ctl_req q;
		struct ctl_seg seg;
	} m = { .q = client_req(CTL_MR_REG) };
	struct ctl_req q = client_req(CTL_PD_ALLOC);
	uint64_t va = (uintptr_t)client.mem;
	uint32_t pd, cq;

	must(&q, sizeof(q));
	pd = client.rsp.handle.handle;
	q = client_req(CTL_CQ_CREATE);
	q.cq_create.cqe = 16;
	must(&q, sizeof(q));
	cq = client.rsp.cq_create.handle;
	for (uint32_t type = UROCE_QPT_RC; type <= UROCE_QPT_UD; type++) {
		q = client_req(CTL_QP_CREATE);
		q.qp_create = (struct ctl_qp_create_req){ .type = type, .pd = pd, .send_cq = cq, .recv_cq = cq, .srq = UINT32_MAX,
							  .cap = { 8, 8, 2, 2, 64 } };
		must(&q, sizeof(q));
	}
	m.q.mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .access = 1, .addr = va, .length = DAEMON_MEM_BYTES, .iova = va, .nb_segs = 1,
					      .nb_in_msg = 1 };
	m.seg = (struct ctl_seg){ .va = va, .length = DAEMON_MEM_BYTES, .kind = CTL_SEG_CONVERTED };
	must(&m.q, sizeof(m));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size);
	tel_show_fn *show = commands[fuzz_below(&in, COMMANDS)];
	struct rte_tel_data *d = rte_tel_data_alloc();
	size_t n = fuzz_left(&in);
	char *text = malloc(n + 1);

	FUZZ_CHECK(d != NULL && text != NULL);
	fuzz_bytes(&in, text, n);
	text[n] = '\0';
	control_lock(daemon_stack->control);
	show(daemon_stack->control, text, d);
	control_unlock(daemon_stack->control);
	free(text);
	while (nb_answers > 0)
		rte_tel_data_free(answers[--nb_answers]);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	daemon_begin();
	client_begin(&client);
	client_open(&client);
	make_objects();
	return 0;
}
