/* SPDX-License-Identifier: BSD-3-Clause */
/* capture: writes the packets of the hosts' ports to a pcapng file, with lib/control. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "control/observe/capture.h"
#include "cmd_capture.h"
#include "format.h"
#include "hosts.h"
#include "control/observe/inspect.h"
#include "objects.h"
#include "uroce/stack.h"

static struct capture *running; /* NULL: none */

static const char *
host_name_of(struct control *c, unsigned int port)
{
	for (unsigned int i = 0; i < hosts_count(); i++)
		if (host_at(i)->stack->control == c && host_at(i)->port == port)
			return host_at(i)->name;
	return NULL;
}

/** Add a host's port to the filter. */
static unsigned int
add_host(struct capture_from *from, unsigned int n, const struct host *h, uint32_t qpn)
{
	unsigned int i = 0;

	while (i < n && from[i].control != h->stack->control)
		i++;
	if (i == n)
		from[n++] = (struct capture_from){ .control = h->stack->control, .qpn = qpn, .name = host_name_of };
	from[i].ports |= UINT32_C(1) << h->port;
	return n;
}

static int
run_start(struct call *c)
{
	const struct object *qp = object_find(OBJECT_QP, call_text(c, "qp"));
	const struct host *only = call_has(c, "host") ? host_find(call_text(c, "host")) : NULL;
	struct capture_params p = { .file = call_text(c, "file"), .overwrite = true, .snap_bytes = (uint32_t)call_number(c, "snap", 0) };
	struct capture_from from[HOSTS_MAX];
	struct capture_stats s;
	char err[CONFIG_ERR_BYTES];
	unsigned int n = 0;

	if (running != NULL) {
		capture_status(running, &s);
		return call_fail(c, "%s is being written: `capture stop` first", s.file);
	}
	if (qp != NULL && only != NULL && only != qp->host)
		return call_fail(c, "%s is of %s, not of %s", qp->name, qp->host->name, only->name);
	if (qp != NULL)
		only = qp->host;
	for (unsigned int i = 0; i < hosts_count(); i++)
		if (only == NULL || only == host_at(i))
			n = add_host(from, n, host_at(i), qp != NULL ? qp->v.qp->qp_num : 0);
	if (capture_start(&p, from, n, &running, err) != 0)
		return call_fail(c, "%s", err);
	printf("capturing into %s\n", p.file);
	return 0;
}

void
capture_end(void)
{
	struct capture_stats s;

	if (running == NULL)
		return;
	capture_stop(running, &s);
	running = NULL;
	printf("%s: %" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " packets missed", s.file, s.packets, s.bytes, s.missed);
	if (s.error != 0)
		printf("; writing failed: %s", strerror(s.error));
	putchar('\n');
}

static int
run_stop(struct call *c)
{
	if (running == NULL)
		return call_fail(c, "nothing is being captured");
	capture_end();
	return 0;
}

static int
show_capture(struct call *c)
{
	struct format *f = format_new();
	struct capture_stats s;

	if (running != NULL) {
		capture_status(running, &s);
		format_row(f);
		format_text(f, "file", "%s", s.file);
		format_number(f, "ports", s.ports);
		format_number(f, "packets", s.packets);
		format_number(f, "bytes", s.bytes);
		format_number(f, "missed", s.missed);
	}
	return call_answer(c, f, FORMAT_LIST, "nothing is being captured");
}

static const struct arg start_args[] = {
	ARG_ANY("file", "where to; what is there is overwritten", ARG_NEEDED),
	{ "host", "only what this one sends and receives", ARG_NAME, ARG_KEYED, .names = host_names },
	{ "qp", "only what this QP sends and receives", ARG_NAME, ARG_KEYED, .names = qp_names },
	ARG_NUM("snap", "bytes of each packet; all of them if left out", CAPTURE_SNAP_MIN, WIRE_MAX_FRAME_BYTES),
	{ 0 },
};
static const struct arg show_args[] = { ARG_JSON, { 0 } };
static const struct command table[] = {
	{ "capture start", "Write packets of all hosts, or of one, to a pcapng file.", start_args, NULL, run_start },
	{ "capture stop", "End the capture.", NULL, NULL, run_stop },
	{ "show capture", "How much has been captured.", show_args, NULL, show_capture },
	{ 0 },
};
COMMANDS(table)
