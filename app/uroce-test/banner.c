/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "banner.h"
#include "hosts.h"
#include "objects.h"
#include "uroce/stack.h"
#include "workload.h"

enum { TEXT_BYTES = 160 };

/** Put the addresses of @p h into @p text, the link-local one excepted. */
static char *
addresses(const struct host *h, char *text, size_t bytes)
{
	const struct net_port *p = h->stack->ports[h->port];
	char gid[GID_TEXT_BYTES];
	size_t n = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < UROCE_MAX_GIDS && n < bytes; i++)
		if (net_gid(p, i) != NULL && !(net_gid(p, i)->raw[0] == 0xfe && net_gid(p, i)->raw[1] == 0x80))
			n += (size_t)snprintf(text + n, bytes - n, "%s%s", n > 0 ? ", " : "", gid_text(net_gid(p, i), gid));
	return text;
}

void
banner_print(void)
{
	char text[TEXT_BYTES];

	printf("uroce-test %s: %u host%s with RoCE v2 in this process.\n", UROCE_VERSION, hosts_count(), hosts_count() == 1 ? "" : "s");
	for (unsigned int i = 0; i < hosts_count(); i++) {
		const struct host *h = host_at(i);
		const struct net_port *p = h->stack->ports[h->port];

		printf("  %s: device %s, port %s %s, GIDs %s\n", h->name, p->conf.name, p->conf.ethdev, net_port_link(p, NULL) ? "up" : "down",
		       addresses(h, text, sizeof(text)));
	}
	puts("Try: demo                         traffic that is checked, then losses and how it recovers from them\n"
	     "     start write duration 5       a workload; `show top` looks at it while it runs\n"
	     "     help                         all commands; Tab completes, ? lists what may come next, `exit` ends");
}

static const char *
describe_object(const char *name, char *text)
{
	for (unsigned int k = 0; k < OBJECT_KINDS; k++) {
		const struct object *o = object_find((enum object_kind)k, name);

		if (o == NULL)
			continue;
		if (k == OBJECT_QP)
			snprintf(text, TEXT_BYTES, "%s of %s, QPN 0x%x, %s", qp_type_text(o->v.qp->qp_type), o->host->name, o->v.qp->qp_num,
				 qp_state_text(object_qp_state(o)));
		else if (k == OBJECT_MR)
			snprintf(text, TEXT_BYTES, "of %s, %zu bytes", o->host->name, o->bytes);
		else
			snprintf(text, TEXT_BYTES, "of %s", o->host->name);
		return text;
	}
	return NULL;
}

const char *
banner_describe(const char *name)
{
	static char text[TEXT_BYTES];
	const struct workload_ops *kind = workload_kind(name);
	const struct workload *w = workload_find(name);
	const struct host *h = host_find(name);

	if (h != NULL)
		return addresses(h, text, sizeof(text));
	if (kind != NULL)
		return kind->help;
	if (w == NULL)
		return describe_object(name, text);
	snprintf(text, sizeof(text), "%s, %s", w->ops->name, workload_state_text(w));
	return text;
}
