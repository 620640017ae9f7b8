/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: captures. */
#include <stdio.h>

#include <bsd/string.h>

#include "control/observe/capture.h"
#include "control/observe/telemetry_priv.h"

static const char usage[] = "give start,FILE[,port=NAME][,qp=QPN][,snap=BYTES], or stop, or nothing";

static int
show(struct control *c, const struct capture_stats *s, struct rte_tel_data *d)
{
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "running", s->running ? "yes" : "no");
	if (s->file[0] == '\0')
		return 0;
	tel_text(d, "file", s->file);
	rte_tel_data_add_dict_string(d, "port", s->port >= 0 ? c->s.ports[s->port]->conf.name : "all");
	rte_tel_data_add_dict_uint(d, "qp", s->qpn);
	rte_tel_data_add_dict_uint(d, "packets", s->packets);
	rte_tel_data_add_dict_uint(d, "bytes", s->bytes);
	rte_tel_data_add_dict_uint(d, "missed", s->missed);
	if (s->error != 0)
		tel_text(d, "error", strerror(s->error));
	return 0;
}

/** A requested capture. */
struct wish {
	struct capture_params p;
	int port;
	uint32_t qpn;
};

/** @return false: @p item is not an option. */
static bool
take_option(const struct control *c, const char *item, struct wish *w)
{
	const char *value = strchr(item, '=');
	uint64_t n;

	if (value == NULL)
		return false;
	value++;
	if (strncmp(item, "port=", 5) == 0) {
		w->port = tel_port_index(c, value);
		return w->port >= 0;
	}
	if (!tel_number(value, &n) || n == 0 || n > UINT32_MAX)
		return false;
	if (strncmp(item, "qp=", 3) == 0)
		w->qpn = (uint32_t)n;
	else if (strncmp(item, "snap=", 5) == 0)
		w->p.snap_bytes = (uint32_t)n;
	else
		return false;
	return true;
}

static int
start(struct control *c, char *rest, struct rte_tel_data *d)
{
	struct wish w = { .port = -1 };
	char err[CONFIG_ERR_BYTES], *item;
	struct capture_stats s;

	w.p.file = strsep(&rest, ",");
	while (rest != NULL && (item = strsep(&rest, ",")) != NULL) {
		if (take_option(c, item, &w))
			continue;
		snprintf(err, sizeof(err), "'%.100s': no such option, or not with this value; %s", item, usage);
		return tel_error(d, err);
	}
	if (control_capture_start(c, &w.p, w.port, w.qpn, err) != 0)
		return tel_error(d, err);
	control_capture_status(c, &s);
	return show(c, &s, d);
}

static int
stop(struct control *c, struct rte_tel_data *d)
{
	struct capture_stats s;

	switch (control_capture_stop(c, &s)) {
	case 0:
		return show(c, &s, d);
	case EPERM:
		return tel_error(d, "the application has begun this capture; it ends it");
	default:
		return tel_error(d, "no capture runs");
	}
}

int
tel_capture(struct control *c, const char *params, struct rte_tel_data *d)
{
	char copy[CONFIG_ERR_BYTES], *rest = copy, *what;
	struct capture_stats s;

	strlcpy(copy, params, sizeof(copy));
	what = strsep(&rest, ",");
	if (strcmp(what, "start") == 0 && rest != NULL)
		return start(c, rest, d);
	if (strcmp(what, "stop") == 0 && rest == NULL)
		return stop(c, d);
	if (params[0] != '\0')
		return tel_error(d, usage);
	control_capture_status(c, &s);
	return show(c, &s, d);
}
