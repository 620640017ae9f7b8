/* SPDX-License-Identifier: BSD-3-Clause */
/* move: a QP goes to another engine of its host, while workloads use it. */
#include <stdio.h>

#include "args.h"
#include "objects.h"
#include "uroce/stack.h"

static int
run_move(struct call *c)
{
	const struct object *o = object_find(OBJECT_QP, call_text(c, "qp"));
	unsigned int engine = (unsigned int)call_number(c, "engine", 0);
	const char *why = "";
	struct control_moved moved;

	if (control_move_qp(o->host->stack->control, o->v.qp->qp_num, engine, &moved, &why) != 0)
		return call_fail(c, "%s: %s", o->name, why);
	if (moved.qps > 1)
		printf("%s: at engine %u with all %u QPs of its SRQ or XRC domain; they sent nothing new for %.1f us\n", o->name, engine, moved.qps,
		       (double)moved.pause_ns / 1e3);
	else
		printf("%s: at engine %u; it sent nothing new for %.1f us\n", o->name, engine, (double)moved.pause_ns / 1e3);
	return 0;
}

static const struct arg args[] = {
	{ "qp", "which", ARG_NAME, ARG_NEEDED, .names = qp_names },
	{ "engine", "number of the engine: `show engine` lists them", ARG_NUMBER, ARG_NEEDED, .min = 0, .max = UROCE_MAX_ENGINES - 1 },
	{ 0 },
};
static const struct command table[] = {
	{ "move", "Move a QP to another engine of its host, while it is in use; with it all QPs of its SRQ.", args, NULL, run_move },
	{ 0 },
};
COMMANDS(table)
