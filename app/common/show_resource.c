/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of programs. */
#include <string.h>

#include "daemon.h"

#define OWNER { "PROGRAM", "program", false }, { "PID", "pid", true }, { "UID", "uid", true }, { "PORT", "device", false }
#define END { NULL, NULL, false }

static const struct column of_ctx[] = {
	{ "SESSION", "number", true }, OWNER, { "KIND", "kind", false }, { "QPS", "qps", true }, { "CQS", "cqs", true }, { "MRS", "mrs", true },
	{ "PDS", "pds", true }, { "SRQS", "srqs", true }, { "CM_IDS", "cm_ids", true }, { "REGISTERED", "registered_bytes", true }, END,
};
static const struct column of_qp[] = {
	{ "QPN", "number", true }, { "TYPE", "type", false }, { "STATE", "state", false }, OWNER, { "PEER", "peer", false },
	{ "PEER_QPN", "peer_qpn", true }, { "SENT", "tx_bytes", true }, { "RETRANSMITTED", "retransmitted", true },
	{ "WAITS_FOR", "waits_for", false }, END,
};
static const struct column of_cq[] = {
	{ "CQ", "number", true }, OWNER, { "ENTRIES", "entries", true }, { "UNPOLLED", "unpolled", true }, { "USERS", "users", true },
	{ "CHANNEL", "channel", false }, { "OVERRUN", "overrun", false }, END,
};
static const struct column of_mr[] = {
	{ "KEY", "number", true }, OWNER, { "PD", "pd", true }, { "LENGTH", "length", true }, { "ADDRESS", "addr", true }, END,
};
static const struct column of_pd[] = { { "PD", "number", true }, OWNER, { "USERS", "users", true }, END };
static const struct column of_srq[] = {
	{ "SESSION", "session", true }, { "SRQ", "handle", true }, OWNER, { "MAX_WR", "max_wr", true }, { "MAX_SGE", "max_sge", true }, END,
};
static const struct column of_cm_id[] = {
	{ "SESSION", "session", true }, { "ID", "handle", true }, { "STATE", "state", false }, OWNER, { "QPN", "qpn", true },
	{ "LOCAL", "local", false }, { "PORT", "local_port", true }, { "REMOTE", "remote", false }, { "PORT", "remote_port", true }, END,
};
static const struct {
	const char *name, *rows;
	const struct column *columns;
} kinds[] = {
	{ "ctx", "session", of_ctx }, { "qp", "qp", of_qp },   { "cq", "cq", of_cq },		{ "mr", "mr", of_mr },
	{ "pd", "pd", of_pd },	      { "srq", "srq", of_srq }, { "cm_id", "cm_id", of_cm_id },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* How many there are of each kind. */
static int
summary(void)
{
	static const struct column columns[] = { { "KIND", "kind", false }, { "COUNT", "count", true }, END };
	json_object *out = json_object_new_array(), *page, *o;
	int rc = 0;

	for (size_t i = 0; i < KINDS; i++) {
		page = ask("/uroce/rows,%s", kinds[i].rows);
		if (page == NULL) {
			rc = EXIT_FAILED;
			break;
		}
		o = json_object_new_object();
		json_object_object_add(o, "kind", json_object_new_string(kinds[i].name));
		json_object_object_add(o, "count", json_object_new_uint64(value_of(page, "all")));
		json_object_array_add(out, o);
		json_object_put(page);
	}
	if (rc == 0)
		rc = show(out, columns);
	json_object_put(out);
	return rc;
}

int
cmd_resource(int argc, char **argv)
{
	const char *names[KINDS + 1] = { 0 };
	json_object *rows;
	int rc;

	if (argc > 0 && strcmp(argv[0], "show") == 0) {
		argc--;
		argv++;
	}
	if (argc == 0)
		return summary();
	for (size_t i = 0; i < KINDS; i++) {
		names[i] = kinds[i].name;
		if (strcmp(kinds[i].name, argv[0]) != 0)
			continue;
		rows = fetch_rows(kinds[i].rows);
		if (rows == NULL)
			return EXIT_FAILED;
		rc = filter_rows(rows, argv + 1);
		if (rc == 0)
			rc = show(rows, kinds[i].columns);
		json_object_put(rows);
		return rc;
	}
	return unknown_word("kind of resource", argv[0], names);
}
