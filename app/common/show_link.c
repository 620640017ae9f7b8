/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon.h"

enum { RATE_MS = 200 /* time over which rates are measured */ };

static const struct column columns[] = {
	{ "PORT", "port", false },	 { "STATE", "state", false },	{ "MTU", "mtu", true },	       { "ADDRESSES", "addresses", false },
	{ "INTERFACE", "netdev", false }, { "DRIVER", "driver", false }, { "MAC", "mac", false },      { "DOWNS", "link_downs", true }, { "SPEED", "speed_text", true },
	{ "RX", "rx_text", true },	 { "TX", "tx_text", true },	{ NULL, NULL, false },
};

static void
copy(json_object *to, const char *name, json_object *from, const char *member)
{
	json_object *m;

	if (json_object_object_get_ex(from, member, &m))
		json_object_object_add(to, name, json_object_get(m));
}

static json_object *
bytes_of(json_object *port)
{
	json_object *stats = NULL;

	json_object_object_get_ex(port, "ethdev_stats", &stats);
	return stats;
}

static void
add_rate(json_object *to, const char *name, const char *text_name, json_object *before, json_object *after, const char *member)
{
	double bps = (double)(value_of(bytes_of(after), member) - value_of(bytes_of(before), member)) * 8e3 / RATE_MS;
	char number[16], text[24];

	json_object_object_add(to, name, json_object_new_uint64((uint64_t)bps));
	snprintf(text, sizeof(text), "%sb/s", with_prefix(bps, number, sizeof(number)));
	if (!target.json)
		json_object_object_add(to, text_name, json_object_new_string(text));
}

static void
add_speed(json_object *to, json_object *port)
{
	uint64_t mbps = value_of(port, "speed");
	char number[16], text[24] = "-";

	json_object_object_add(to, "speed_mbps", json_object_new_uint64(mbps));
	if (mbps > 0)
		snprintf(text, sizeof(text), "%sb/s", with_prefix((double)mbps * 1e6, number, sizeof(number)));
	if (!target.json)
		json_object_object_add(to, "speed_text", json_object_new_string(text));
}

static json_object *
describe(json_object *before, json_object *after)
{
	json_object *o = json_object_new_object();

	copy(o, "port", after, "name");
	copy(o, "state", after, "link");
	copy(o, "device", after, "state");
	copy(o, "link_downs", after, "link_downs");
	copy(o, "restarts", after, "restarts");
	copy(o, "mtu", after, "mtu");
	copy(o, "addresses", after, "addresses");
	copy(o, "netdev", after, "netdev");
	copy(o, "ethdev", after, "ethdev");
	copy(o, "driver", after, "driver");
	copy(o, "mac", after, "mac");
	copy(o, "cc", after, "cc");
	copy(o, "queues", after, "queues");
	add_speed(o, after);
	add_rate(o, "rx_bps", "rx_text", before, after, "ibytes");
	add_rate(o, "tx_bps", "tx_text", before, after, "obytes");
	return o;
}

/* @return /uroce/port of all names, or NULL. */
static json_object *
ask_all(json_object *names)
{
	json_object *all = json_object_new_array(), *one;

	for (size_t i = 0; i < json_object_array_length(names); i++) {
		one = ask("/uroce/port,%s", json_object_get_string(json_object_array_get_idx(names, i)));
		if (one == NULL) {
			json_object_put(all);
			return NULL;
		}
		json_object_array_add(all, one);
	}
	return all;
}

int
cmd_link(int argc, char **argv)
{
	json_object *names, *before = NULL, *after = NULL, *out = json_object_new_array();
	struct timespec rest = { 0, RATE_MS * 1000000L };
	int rc = EXIT_FAILED;

	if (argc > 0 && strcmp(argv[0], "show") == 0) {
		argc--;
		argv++;
	}
	if (argc > 1)
		return usage("link: one port at most, not '%s'", argv[1]);
	names = argc == 1 ? json_object_new_array() : ask("/uroce/port");
	if (argc == 1)
		json_object_array_add(names, json_object_new_string(argv[0]));
	if (names != NULL)
		before = ask_all(names);
	if (before != NULL) {
		nanosleep(&rest, NULL);
		after = ask_all(names);
	}
	if (after != NULL) {
		for (size_t i = 0; i < json_object_array_length(after); i++)
			json_object_array_add(out, describe(json_object_array_get_idx(before, i), json_object_array_get_idx(after, i)));
		rc = show(out, columns);
	}
	json_object_put(names);
	json_object_put(before);
	json_object_put(after);
	json_object_put(out);
	return rc;
}
