/* SPDX-License-Identifier: BSD-3-Clause */
/* show object: shows objects that the user created; show cq, mr, session: objects of all programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "format.h"
#include "control/observe/inspect.h"
#include "objects.h"
#include "uroce/stack.h"

enum { NUMBERS_MAX = 4096, ACCESS_BYTES = 128 };

/* ---- Objects by name ---- */
static const char *const kind_words[] = { "pd", "mr", "cq", "srq", "qp", "ah", "mw", "xrcd", NULL };

static void
describe(const struct object *o, char *text, size_t bytes)
{
	switch (o->kind) {
	case OBJECT_MR:
		snprintf(text, bytes, "addr 0x%llx length %zu lkey 0x%x rkey 0x%x", (unsigned long long)(uintptr_t)o->memory, o->bytes,
			 o->v.mr->lkey, o->v.mr->rkey);
		break;
	case OBJECT_CQ:
		snprintf(text, bytes, "%d entries", o->v.cq->cqe);
		break;
	case OBJECT_QP:
		snprintf(text, bytes, "%s qpn 0x%x psn 0x%x %s%s%s", qp_type_text(o->v.qp->qp_type), o->v.qp->qp_num, o->psn,
			 qp_state_text(object_qp_state(o)), o->peer.qp != NULL ? " to " : "",
			 o->peer.qp != NULL ? o->peer.qp->name : "");
		break;
	case OBJECT_MW:
		snprintf(text, bytes, "rkey 0x%x", o->v.mw->rkey);
		break;
	default:
		text[0] = '\0';
		break;
	}
}

static void
add_object(struct format *f, const struct object *o)
{
	char text[160], of[80] = "";
	const struct object *from[] = { o->pd, o->cq, o->recv_cq == o->cq ? NULL : o->recv_cq, o->srq, o->xrcd };

	for (unsigned int i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		if (from[i] != NULL)
			snprintf(of + strlen(of), sizeof(of) - strlen(of), "%s%s", of[0] != '\0' ? " " : "", from[i]->name);
	describe(o, text, sizeof(text));
	format_row(f);
	format_text(f, "name", "%s", o->name);
	format_text(f, "host", "%s", o->host->name);
	format_text(f, "made_of", "%s", of[0] != '\0' ? of : "-");
	format_number(f, "users", o->users + o->busy);
	format_text(f, "what", "%s", text);
}

static int
show_object(struct call *c)
{
	int kind = call_choice(c, "kind", -1);
	struct format *f = format_new();

	for (int k = 0; k < OBJECT_KINDS; k++)
		for (unsigned int i = 0; (kind < 0 || kind == k) && object_at((enum object_kind)k, i) != NULL; i++)
			add_object(f, object_at((enum object_kind)k, i));
	return call_answer(c, f, FORMAT_TABLE, "no object; `create` makes some");
}

/* ---- Objects of the stacks ---- */
typedef void (*add_fn)(struct format *f, const struct host *h, uint64_t number);

/** @return the name that the user has for the object; "-" if the user didn't create it. */
static const char *
name_of(enum inspect_kind kind, const struct host *h, uint64_t number)
{
	return object_name(kind == INSPECT_CQ ? OBJECT_CQ : OBJECT_MR, h, number);
}

/** @return true if @p text names the object: "cq1", "mr1" or its number. */
static bool
is_meant(enum inspect_kind kind, const struct host *h, uint64_t number, const char *text)
{
	char *end;

	if (kind != INSPECT_SESSION && strcmp(name_of(kind, h, number), text) == 0)
		return true;
	return text[0] >= '0' && text[0] <= '9' && strtoull(text, &end, 0) == number && *end == '\0';
}

/** Show all objects of a kind, or the one that the user asked for. */
static int
show_all(struct call *c, enum inspect_kind kind, add_fn add, const char *empty)
{
	static uint64_t numbers[NUMBERS_MAX];
	const char *want = call_text(c, "number");
	bool one = want != NULL;
	struct format *f = format_new();
	unsigned int rows = 0;

	for (unsigned int i = 0; i < hosts_count(); i++) {
		struct inspect_filter filter = INSPECT_ALL;
		struct host *h = host_at(i);
		uint32_t n;

		if (!call_means_host(c, h))
			continue;
		filter.port = (int)h->port;
		n = inspect_list(h->stack->control, kind, &filter, numbers, NUMBERS_MAX);
		for (uint32_t k = 0; k < n && k < NUMBERS_MAX; k++) {
			if (one && !is_meant(kind, h, numbers[k], want))
				continue;
			add(f, h, numbers[k]);
			rows++;
		}
	}
	if (!one || rows > 0)
		return call_answer(c, f, one ? FORMAT_LIST : FORMAT_TABLE, empty);
	format_free(f);
	return call_fail(c, "number: '%s': there is none; `%s` lists those there are", want, c->command->words);
}

static void
add_cq(struct format *f, const struct host *h, uint64_t number)
{
	struct inspect_cq cq;

	if (inspect_cq(h->stack->control, number, &cq) != 0)
		return;
	format_host_row(f, h);
	format_number(f, "number", number);
	format_text(f, "name", "%s", name_of(INSPECT_CQ, h, number));
	format_number(f, "size", cq.v.size);
	format_number(f, "unpolled", cq.v.unpolled);
	format_number(f, "users", cq.v.users);
	format_bool(f, "armed", cq.v.armed != 0);
	format_bool(f, "channel", cq.v.channel);
	format_bool(f, "overrun", cq.v.overrun);
	format_number(f, "session", cq.session);
	format_text(f, "program", "%s", cq.program);
}

static void
add_mr(struct format *f, const struct host *h, uint64_t number)
{
	struct inspect_mr mr;
	char text[ACCESS_BYTES];

	if (inspect_mr(h->stack->control, (uint32_t)number, &mr) != 0)
		return;
	format_host_row(f, h);
	format_hex(f, "number", mr.key);
	format_text(f, "name", "%s", name_of(INSPECT_MR, h, number));
	format_hex(f, "addr", mr.addr);
	format_number(f, "length", mr.length);
	format_number(f, "mapped", mr.mapped_bytes);
	format_number(f, "pd", mr.pd);
	format_text(f, "access", "%s", access_text(mr.access, text));
	format_number(f, "windows", mr.windows);
	format_number(f, "session", mr.session);
	format_text(f, "program", "%s", mr.program);
}

static void
add_session(struct format *f, const struct host *h, uint64_t number)
{
	struct inspect_session s;

	if (inspect_session(h->stack->control, number, &s) != 0)
		return;
	format_host_row(f, h);
	format_number(f, "number", s.number);
	format_text(f, "program", "%s", s.program);
	format_number(f, "pid", (uint64_t)s.pid);
	format_text(f, "device", "%s", s.device[0] != '\0' ? s.device : "-");
	format_number(f, "pds", s.pds);
	format_number(f, "mrs", s.mrs);
	format_number(f, "cqs", s.cqs);
	format_number(f, "srqs", s.srqs);
	format_number(f, "qps", s.qps);
	format_number(f, "ahs", s.ahs);
	format_number(f, "cm_ids", s.cm_ids);
	format_number(f, "ring_bytes", s.ring_bytes);
	format_number(f, "registered", s.registered_bytes);
	format_text(f, "waits", "%s", s.waits[0] != '\0' ? s.waits : "-");
}

static int
show_cq(struct call *c)
{
	return show_all(c, INSPECT_CQ, add_cq, "no CQ");
}

static int
show_mr(struct call *c)
{
	return show_all(c, INSPECT_MR, add_mr, "no MR");
}

static int
show_session(struct call *c)
{
	return show_all(c, INSPECT_SESSION, add_session, "no session");
}

static const struct arg object_args[] = {
	{ "kind", "only these; all if left out", ARG_CHOICE, ARG_OPTIONAL, .words = kind_words },
	ARG_JSON,
	{ 0 },
};
static const struct arg cq_args[] = {
	{ "number", "a number; all if left out", ARG_NAME, ARG_OPTIONAL, .open = true, .names = cq_names },
	ARG_ONLY_HOST,
	ARG_JSON,
	{ 0 },
};
static const struct arg mr_args[] = {
	{ "number", "a key; all if left out", ARG_NAME, ARG_OPTIONAL, .open = true, .names = mr_names },
	ARG_ONLY_HOST,
	ARG_JSON,
	{ 0 },
};
static const struct arg session_args[] = {
	ARG_ANY("number", "which; all if left out", ARG_OPTIONAL),
	ARG_ONLY_HOST,
	ARG_JSON,
	{ 0 },
};
static const struct command table[] = {
	{ "show object", "Objects that `create` made.", object_args, NULL, show_object },
	{ "show cq", "Completion queues of all who have some.", cq_args, NULL, show_cq },
	{ "show mr", "Memory regions of all who have some.", mr_args, NULL, show_mr },
	{ "show session", "Who has the hosts' devices open.", session_args, NULL, show_session },
	{ 0 },
};
COMMANDS(table)
