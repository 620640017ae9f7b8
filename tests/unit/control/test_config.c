/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration: what it means, and what each mistake in it is answered with. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <cmocka.h>

#include "control/config/config.h"

enum { TEXT_BYTES = 8192 };

static char path[] = "/tmp/uroce-test-config-XXXXXX";

static void
write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fputs(text, f) >= 0, 1);
	assert_int_equal(fclose(f), 0);
}

/** A file with one mistake, and what must stand in the message. */
static const struct {
	const char *text;
	const char *says[3];
} bad_files[] = {
	{ "[daemon]\nsockt = /x\n[port uroce0]\nethdev = a\n", { ":2: ", "sockt", "did you mean socket?" } },
	{ "[deamon]\nsocket = /x\n", { ":1: ", "[deamon]", "[daemon], [port uroceN] and [share NAME]" } },
	{ "[port eth0]\nethdev = a\n", { ":1: ", "[port eth0]", "uroce0 to uroce15" } },
	{ "[port uroce16]\nethdev = a\n", { ":1: ", "[port uroce16]", "uroce0 to uroce15" } },
	{ "[port uroce00]\nethdev = a\n", { ":1: ", "[port uroce00]", "uroce0 to uroce15" } },
	{ "[daemon]\nidle = poll\n", { "no port", "[port uroce0]", "ethdev" } },
	{ "[port uroce0]\nmtu = 4200\n", { "[port uroce0]", "no ethdev", "ethdev = " } },
	{ "[port uroce0]\nethdev = a\n[port uroce1]\nethdev = a\n", { "uroce0", "uroce1", "same ethdev a" } },
	{ "[port uroce0]\nethdev = a\naddresses = fd00::1/64 10.0.0.1/24\n[port uroce1]\nethdev = b\naddresses = 10.0.0.1/8\n",
	  { "uroce0", "uroce1", "same address 10.0.0.1" } },
	{ "[port uroce0]\nethdev = a\naddresses = fd00::1/64 10.0.0.1/24\n[port uroce1]\nethdev = b\naddresses = fd01::1/64 10.0.1.1/16\n",
	  { "[port uroce0] with 10.0.0.1/24", "[port uroce1] with 10.0.1.1/16", "in one network" } },
	{ "[port uroce0]\nethdev = a\naddresses = fd00::1/64\n[port uroce1]\nethdev = b\naddresses = 10.0.1.1/16 fd00::2/64\n",
	  { "fd00::1/64", "fd00::2/64", "in one network" } },
	{ "[port uroce0]\nethdev = a\naddresses = 10.0.0.1/24\n[port uroce1]\nethdev = b\naddresses = 10.0.0.9/32\n",
	  { "10.0.0.1/24", "10.0.0.9/32", "in one network" } },
	{ "[port uroce0]\nethdev = a\nvlan = 5\naddresses = fd00::1/64\n[port uroce1]\nethdev = b\nvlan = 5\naddresses = fd00::1/64\n",
	  { "uroce1", "same address fd00::1", "different VLANs" } },
	{ "[port uroce0]\nethdev = a\nvlan = 5\naddresses = fd00::1/64\n[port uroce1]\nethdev = b\naddresses = fd00::2/64@5\n",
	  { "fd00::1/64", "fd00::2/64", "in one network" } },
	{ "[port uroce0]\nethdev = a\naddresses = 10.0.0.1/24 10.0.0.1/24@5\n", { ":3: ", "10.0.0.1/24@5 is given twice", "whatever its VLAN" } },
	{ "[port uroce0]\nethdev = a\n\n# c\naddresses = 10.0.0.1/33\n", { ":5: ", "10.0.0.1/33", "0 to 32" } },
	{ "[port uroce0]\nethdev = a\naddresses = 10.0.0.1/24 10.0.0.1/24\n", { ":3: ", "10.0.0.1/24", "twice" } },
	{ "[port uroce0]\nethdev = a\nmtu = 100\n", { ":3: ", "mtu = 100", "576 to 9600" } },
	{ "[port uroce0]\nethdev = a\nmtu = 4200x\n", { ":3: ", "4200x", "a number" } },
	{ "[port uroce0]\nethdev = a\nmtu = -1\n", { ":3: ", "-1", "a number" } },
	{ "[port uroce0]\nethdev = a\nvlan = 4095\n", { ":3: ", "vlan = 4095", "0 to 4094" } },
	{ "[port uroce0]\nethdev = a\ngateway4 = fd00::1\n", { ":3: ", "gateway4", "IPv4 address" } },
	{ "[port uroce0]\nethdev = a\ngateway6 = 10.0.0.1\n", { ":3: ", "gateway6", "IPv6 address" } },
	{ "[port uroce0]\nethdev = a\npkeys = 0\n", { ":3: ", "pkeys", "0xffff" } },
	{ "[port uroce0]\nethdev = a\npkeys = 1 2 3 4 5\n", { ":3: ", "at most 4", "P_Keys" } },
	{ "[port uroce0]\nethdev = a\npkeys = 0xffff, 8001, ffff\n", { ":3: ", "ffff", "twice" } },
	{ "[port uroce0]\nethdev = a\npkeys = 0xffff, 0x8000\n", { ":3: ", "0x8000", "for example" } },
	{ "[port uroce0]\nethdev = a\ncc = reno\n", { ":3: ", "cc = reno", "must be one of: none dcqcn swift" } },
	{ "[port uroce0]\nethdev = a\nimpair = loss=2\n", { ":3: ", "impair", "loss" } },
	{ "[daemon]\nidle = lazy\n[port uroce0]\nethdev = a\n", { ":2: ", "lazy", "poll adaptive" } },
	{ "[daemon]\nsocket = run/x\n", { ":2: ", "run/x", "absolute path" } },
	{ "[daemon]\nsocket_mode = 999\n", { ":2: ", "999", "octal" } },
	{ "[daemon]\nmax_qp = 65537\n", { ":2: ", "max_qp", "1 to 65536" } },
	{ "[daemon]\nmax_qp = 99999999999999999999\n", { ":2: ", "max_qp", "1 to 65536" } },
	{ "[daemon]\nidle = poll\nidle = poll\n", { ":3: ", "idle", "line 2" } },
	{ "[daemon]\n[daemon]\n", { ":2: ", "[daemon]", "line 1" } },
	{ "[daemon]\nidle =\n", { ":2: ", "idle", "1 to 255 characters" } },
	{ "idle = poll\n", { ":1: ", "idle", "before any section" } },
	{ "[daemon\nidle = poll\n", { ":1: ", "[daemon", "[port uroce0]" } },
	{ "[daemon]\nidle\n", { ":2: ", "idle", "key = value" } },
	{ "[]\n", { ":1: ", "[]", "unknown section" } },
	{ "[share ]\n", { ":1: ", "share", "1 to 31 characters" } },
	{ "[share 12345678901234567890123456789012]\nweight = 1\n", { ":1: ", "share", "1 to 31 characters" } },
	{ "[share a]\nweight = 1\n[port uroce0]\nethdev = a\n", { "[share a]", "is for nobody", "users or groups" } },
};

/** For each key wrong values, and what the message says besides them. */
static const struct {
	const char *section, *key, *value, *says;
} bad_values[] = {
	{ "daemon", "socket", "uroced.sock", "absolute path" },
	{ "daemon", "socket", "/12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345", "96" },
	{ "daemon", "survive_crash", "3601", "0 to 3600" },
	{ "daemon", "socket_mode", "0778", "octal" },
	{ "daemon", "socket_mode", "01000", "octal" },
	{ "daemon", "socket_mode", "-1", "octal" },
	{ "daemon", "socket_mode", "rw", "octal" },
	{ "daemon", "socket_group", "nobody has this group", "getent group" },
	{ "daemon", "socket_group", "4294967295", "getent group" },
	{ "daemon", "socket_group", "0123456789012345678901234567890123456789012345678901234567890123", "64" },
	{ "daemon", "user", "nobody has this name", "getent passwd" },
	{ "daemon", "user", "4294967295", "getent passwd" },
	{ "daemon", "seccomp", "yes", "off on" },
	{ "daemon", "idle", "Poll", "poll adaptive" },
	{ "daemon", "mbufs", "1023", "1024 to 16777216" },
	{ "daemon", "mbufs", "16777217", "1024 to 16777216" },
	{ "daemon", "mbufs", "64k", "1024 to 16777216" },
	{ "daemon", "log_level", "7", "notice info debug" },
	{ "daemon", "max_sessions", "0", "1 to 1024" },
	{ "daemon", "max_sessions", "1025", "1 to 1024" },
	{ "daemon", "max_pd", "0", "1 to 65536" },
	{ "daemon", "max_pd", "65537", "1 to 65536" },
	{ "daemon", "max_mr", "0", "1 to 262144" },
	{ "daemon", "max_mr", "262145", "1 to 262144" },
	{ "daemon", "max_cq", "0", "1 to 65536" },
	{ "daemon", "max_cq", "1.5", "1 to 65536" },
	{ "daemon", "max_srq", "0", "1 to 65536" },
	{ "daemon", "max_srq", "0x10", "1 to 65536" },
	{ "daemon", "max_qp", "0", "1 to 65536" },
	{ "daemon", "max_qp", "18446744073709551617", "1 to 65536" },
	{ "daemon", "max_ah", "0", "1 to 65536" },
	{ "daemon", "max_ah", "65537", "1 to 65536" },
	{ "daemon", "max_cm_id", "0", "1 to 65536" },
	{ "daemon", "max_cm_id", "65537", "1 to 65536" },
	{ "daemon", "max_peer_connections", "0", "1 to 65536" },
	{ "daemon", "max_peer_connections", "65537", "1 to 65536" },
	{ "daemon", "max_half_open", "0", "1 to 65536" },
	{ "daemon", "max_half_open", "many", "1 to 65536" },
	{ "daemon", "userfaultfd", "yes", "off on" },
	{ "daemon", "session_max_rings", "-1", "0 to 4294967295" },
	{ "daemon", "session_max_rings", "4294967296", "0 to 4294967295" },
	{ "daemon", "hello_timeout", "0", "1 to 3600" },
	{ "daemon", "hello_timeout", "3601", "1 to 3600" },
	{ "daemon", "by_reference", "maybe", "off on" },
	{ "daemon", "balance", "1", "off on" },
	{ "daemon", "limit_root", "maybe", "off on" },
#define X(kind, session, user, most, unit, plural) \
	{ "daemon", "session_max_" #kind, "none", "0 to " }, { "daemon", "session_max_" #kind, "4294967296", "0 to " }, \
	{ "daemon", "user_max_" #kind, "none", "0 to " }, { "daemon", "user_max_" #kind, "4294967296", "0 to " },
	CONFIG_QUOTAS(X)
#undef X
	{ "daemon", "session_max_qp", "65537", "0 to 65536" },
	{ "daemon", "session_max_qp", "none", "0 to 65536" },
	{ "daemon", "session_max_cq", "65537", "0 to 65536" },
	{ "daemon", "session_max_cq", "none", "0 to 65536" },
	{ "daemon", "session_max_mr", "262145", "0 to 262144" },
	{ "daemon", "session_max_mr", "none", "0 to 262144" },
	{ "daemon", "session_max_memory", "4294967296", "0 to 4294967295" },
	{ "daemon", "session_max_memory", "none", "0 to 4294967295" },
	{ "daemon", "session_max_connects", "4294967296", "0 to 4294967295" },
	{ "daemon", "session_max_connects", "none", "0 to 4294967295" },
	{ "daemon", "user_max_qp", "65537", "0 to 65536" },
	{ "daemon", "user_max_qp", "none", "0 to 65536" },
	{ "daemon", "user_max_cq", "65537", "0 to 65536" },
	{ "daemon", "user_max_cq", "none", "0 to 65536" },
	{ "daemon", "user_max_mr", "262145", "0 to 262144" },
	{ "daemon", "user_max_mr", "none", "0 to 262144" },
	{ "daemon", "user_max_memory", "4294967296", "0 to 4294967295" },
	{ "daemon", "user_max_memory", "none", "0 to 4294967295" },
	{ "daemon", "user_max_connects", "4294967296", "0 to 4294967295" },
	{ "daemon", "user_max_connects", "none", "0 to 4294967295" },
	{ "daemon", "user_max_sessions", "1025", "0 to 1024" },
	{ "daemon", "telemetry", "no", "off" },
	{ "daemon", "metrics", "9450", "unix:" },
	{ "daemon", "metrics", "0.0.0.0:9450", "127.0.0.1" },
	{ "daemon", "metrics", "127.0.0.1:65536", "127.0.0.1" },
	{ "daemon", "metrics", "unix:metrics.sock", "unix:" },
	{ "port uroce0", "ethdev", "0123456789012345678901234567890123456789012345678901234567890123", "shorter than 64" },
	{ "port uroce0", "addresses", "198.18.0.1", "prefix length is missing" },
	{ "port uroce0", "addresses", "fd00::1/129", "0 to 128" },
	{ "port uroce0", "addresses", "host/24", "neither an IPv4 nor an IPv6 address" },
	{ "port uroce0", "addresses", "224.0.0.1/24", "multicast" },
	{ "port uroce0", "addresses", "127.0.0.1/8", "loopback" },
	{ "port uroce0", "addresses", "::/64", "unspecified" },
	{ "port uroce0", "addresses", "::ffff:198.18.0.1/120", "as IPv4" },
	{ "port uroce0", "addresses", "1.0.0.1/8, 1.0.0.2/8", "1.0.0.1/8," },
	{ "port uroce0", "addresses",
	  "1.0.0.1/8 1.0.0.2/8 1.0.0.3/8 1.0.0.4/8 1.0.0.5/8 1.0.0.6/8 1.0.0.7/8 1.0.0.8/8 1.0.0.9/8 1.0.0.10/8 1.0.0.11/8 "
	  "1.0.0.12/8 1.0.0.13/8 1.0.0.14/8 1.0.0.15/8 1.0.0.16/8",
	  "at most 15" },
	{ "port uroce0", "gateway4", "198.18.0", "IPv4 address" },
	{ "port uroce0", "gateway4", "198.18.0.254/24", "IPv4 address" },
	{ "port uroce0", "gateway4", "0.0.0.0", "router" },
	{ "port uroce0", "gateway4", "224.0.0.2", "multicast" },
	{ "port uroce0", "gateway4", "255.255.255.255", "reserved" },
	{ "port uroce0", "gateway6", "::", "router" },
	{ "port uroce0", "routes", "203.0.113.0/24", "203.0.113.0/24 via 198.18.0.253" },
	{ "port uroce0", "routes", "203.0.113.0 via 198.18.0.253", "203.0.113.0/24 via 198.18.0.253" },
	{ "port uroce0", "routes", "203.0.113.0/33 via 198.18.0.253", "0 to 32" },
	{ "port uroce0", "routes", "2001:db8::/129 via fd00:18::fd", "0 to 128" },
	{ "port uroce0", "routes", "203.0.113.0/1234567 via 198.18.0.253", "must be like" },
	{ "port uroce0", "routes", "203.0.113.0/ via 198.18.0.253", "0 to 32" },
	{ "port uroce0", "routes", "203.0.113.5/24 via 198.18.0.253", "like 203.0.113.0/24" },
	{ "port uroce0", "routes", "203.0.113.0/24 via fd00:18::fd", "both" },
	{ "port uroce0", "routes", "203.0.113.0/24 via 224.0.0.2", "multicast" },
	{ "port uroce0", "routes", "203.0.113.0/24 via 198.18.0.253 x", "must be like" },
	{ "port uroce0", "routes", "203.0.113.0/24 via 198.18.0.253, 203.0.113.0/24 via 198.18.0.252", "one router" },
	{ "port uroce0", "gateway6", "ff02::2", "multicast" },
	{ "port uroce0", "gateway6", "::1", "loopback" },
	{ "port uroce0", "gateway6", "::ffff:198.18.0.254", "IPv6" },
	{ "port uroce0", "addresses", "10.0.0.1/24@4095", "1 to 4094, or 0 for untagged, like 10.0.0.1/24@5" },
	{ "port uroce0", "addresses", "10.0.0.1/24@", "1 to 4094, or 0 for untagged, like 10.0.0.1/24@5" },
	{ "port uroce0", "addresses", "10.0.0.1/24@5,6", "1 to 4094" },
	{ "port uroce0", "addresses", "10.0.0.1/24 @5", "must be like" },
	{ "port uroce0", "vlan", "4095", "0 to 4094" },
	{ "port uroce0", "vlan", "any", "0 to 4094" },
	{ "port uroce0", "mtu", "575", "576 to 9600" },
	{ "port uroce0", "mtu", "9601", "576 to 9600" },
	{ "port uroce0", "mtu", "70000", "576 to 9600" },
	{ "port uroce0", "pkeys", "0x10000", "P_Key in hexadecimal" },
	{ "port uroce0", "pkeys", "default", "P_Key in hexadecimal" },
	{ "port uroce0", "pkeys", ",", "at least one" },
	{ "port uroce0", "rx_desc", "31", "32 to 32768" },
	{ "port uroce0", "rx_desc", "32769", "32 to 32768" },
	{ "port uroce0", "tx_desc", "31", "32 to 32768" },
	{ "port uroce0", "tx_desc", "65536", "32 to 32768" },
	{ "port uroce0", "cc", "DCQCN", "none dcqcn swift" },
	{ "port uroce0", "selective_repeat", "1", "off on" },
	{ "port uroce0", "tail_loss_probe", "yes", "off on" },
	{ "port uroce0", "credits", "no", "off on" },
	{ "port uroce0", "ack_coalescing", "OFF", "off on" },
	{ "port uroce0", "impair", "loss", "KEY=VALUE" },
	{ "port uroce0", "impair", "gravity=1", "loss, burst" },
	{ "port uroce0", "impair", "seed=1e3", "whole number" },
	{ "port uroce0", "impair", "rule=drop/opcode=256", "0 to 255" },
	{ "share a", "users", "nobody has this name", "getent passwd" },
	{ "share a", "users", "4294967295", "getent passwd" },
	{ "share a", "users", ",", "at least one" },
	{ "share a", "users", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33", "at most 32" },
	{ "share a", "groups", "root *", "getent group" },
	{ "share a", "weight", "0", "1 to 10000" },
	{ "share a", "weight", "10001", "1 to 10000" },
	{ "share a", "rate_mbps", "4000001", "0 to 4000000" },
	{ "share a", "rate_packets", "4294967296", "0 to 4294967295" },
};

static void
each_mistake_in_a_file_names_line_key_and_remedy(void **state)
{
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];
	size_t i, k;

	for (i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
		write_file(bad_files[i].text);
		err[0] = '\0';
		assert_int_equal(config_load(path, NULL, 0, &c, err), EINVAL);
		for (k = 0; k < 3; k++) {
			if (strstr(err, bad_files[i].says[k]) == NULL)
				fail_msg("file %zu: '%s' doesn't say '%s'", i, err, bad_files[i].says[k]);
		}
	}
}

/** Whether bad_values has something for the @p n characters at @p key. */
static bool
tried(const char *section, const char *key, size_t n)
{
	size_t i;

	for (i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++)
		if (strcmp(bad_values[i].section, section) == 0 && strlen(bad_values[i].key) == n &&
		    memcmp(bad_values[i].key, key, n) == 0)
			return true;
	return false;
}

static void
wrong_values_of_every_key_are_refused(void **state)
{
	static const char there_are[] = "there are ";
	static const char *const sections[] = { "daemon", "port uroce0", "share a" };
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES], text[1024], *key;
	size_t i;

	for (i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++) {
		snprintf(text, sizeof(text), "# line 1\n[%s]\n%s = %s\n", bad_values[i].section, bad_values[i].key,
			 bad_values[i].value);
		write_file(text);
		err[0] = '\0';
		assert_int_equal(config_load(path, NULL, 0, &c, err), EINVAL);
		snprintf(text, sizeof(text), ":3: [%s] %s = %.20s", bad_values[i].section, bad_values[i].key, bad_values[i].value);
		if (strstr(err, text) == NULL || strstr(err, bad_values[i].says) == NULL)
			fail_msg("%s = %s: '%s' doesn't say '%s' or '%s'", bad_values[i].key, bad_values[i].value, err, text,
				 bad_values[i].says);
	}
	/* The answer to an unknown key has them all, to the last. */
	for (i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		snprintf(text, sizeof(text), "[%s]\nx = y\n", sections[i]);
		write_file(text);
		assert_int_equal(config_load(path, NULL, 0, &c, err), EINVAL);
		assert_true(strlen(err) < sizeof(err) - 1);
		key = strstr(err, there_are);
		assert_non_null(key);
		for (key += strlen(there_are); *key != '\0' && strncmp(key, "and ", 4) != 0; key += strspn(key, ", ")) {
			if (!tried(sections[i], key, strcspn(key, ",")))
				fail_msg("bad_values has nothing for a key of [%s], '%.*s'", sections[i], (int)strcspn(key, ","), key);
			key += strcspn(key, ",");
		}
		/* The limits of programs and users are told by their kinds. */
#define X(kind, session, user, most, unit, plural) \
	assert_true(i != 0 || strstr(strstr(key, "KIND of"), " " #kind) != NULL);
		CONFIG_QUOTAS(X)
#undef X
	}
}

static void
sections_of_shares_arrive_in_order(void **state)
{
	struct uroced_config c, d;
	char err[CONFIG_ERR_BYTES], text[4096];
	int n;

	write_file("[port uroce0]\nethdev = a\n[share b]\nusers = root, 4711 12\nweight = 25\nrate_mbps = 10000\nrate_packets = 7\n"
		   "[share a]\ngroups = 5\nusers = *\n");
	if (config_load(path, NULL, 0, &c, err) != 0)
		fail_msg("%s", err);
	assert_int_equal(c.nb_shares, 2);
	assert_string_equal(c.shares[0].name, "b");
	assert_int_equal(c.shares[0].users.nb, 3);
	assert_int_equal(c.shares[0].users.ids[0], 0);
	assert_int_equal(c.shares[0].users.ids[1], 4711);
	assert_int_equal(c.shares[0].weight, 25);
	assert_int_equal(c.shares[0].rate_mbps, 10000);
	assert_int_equal(c.shares[0].rate_packets, 7);
	assert_true(c.shares[1].users.all);
	assert_int_equal(c.shares[1].groups.ids[0], 5);
	assert_int_equal(c.shares[1].weight, SHARE_WEIGHT_USUAL);
	/* Copied as a whole. */
	config_defaults(&d);
	config_copy(&d, &c, CONFIG_SHARES);
	assert_int_equal(d.nb_shares, 2);
	assert_memory_equal(d.shares, c.shares, sizeof(d.shares));
	/* One more than there may be. */
	n = snprintf(text, sizeof(text), "[port uroce0]\nethdev = a\n");
	for (unsigned int i = 0; i <= CONFIG_MAX_SHARES; i++) {
		write_file(text);
		assert_int_equal(config_load(path, NULL, 0, &c, err), 0);
		n += snprintf(text + n, sizeof(text) - n, "[share %u]\nusers = %u\n", i, i);
	}
	write_file(text);
	assert_int_equal(config_load(path, NULL, 0, &c, err), EINVAL);
	assert_non_null(strstr(err, "at most 16 sections"));
}

static void
lines_that_can_not_be_read_are_named(void **state)
{
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES], longest[1025], text[4096];
	FILE *f;

	memset(longest, '#', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	/* At the limit, also without an end of line; and one beyond it. */
	snprintf(text, sizeof(text), "%s\n[port uroce0]\nethdev = a\n%s", longest, longest);
	write_file(text);
	assert_int_equal(config_load(path, NULL, 0, &c, err), 0);
	snprintf(text, sizeof(text), "[port uroce0]\nethdev = a\n%s#\n", longest);
	write_file(text);
	assert_int_equal(config_load(path, NULL, 0, &c, err), EINVAL);
	assert_non_null(strstr(err, ":3: the line has 1025 characters; at most 1024"));
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "[port uroce0]\nethdev = a%cb\n", 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(config_load(path, NULL, 0, &c, err), EINVAL);
	assert_non_null(strstr(err, ":2: a byte 0"));
}

static void
add_problem(void *arg, const char *text)
{
	char *all = arg;

	strlcat(all, text, TEXT_BYTES);
	strlcat(all, "\n", TEXT_BYTES);
}

/** Load @p text and two settings. @return how many mistakes were told, which are in @p all. */
static unsigned int
tell_all(const char *text, const char *set, char all[TEXT_BYTES])
{
	struct uroced_config c;
	unsigned int n = 0;

	write_file(text);
	all[0] = '\0';
	assert_int_equal(config_load_telling(path, &set, set != NULL, &c, add_problem, all), EINVAL);
	for (const char *end = all; (end = strchr(end, '\n')) != NULL; end++)
		n++;
	return n;
}

static void
all_mistakes_are_told_at_once(void **state)
{
	char all[TEXT_BYTES], text[TEXT_BYTES];

	assert_int_equal(tell_all("[daemon]\nidel = poll\nidle = often\nno value\n[port uroce0]\nethdef = a\nmtu = big\n", "daemon.x=1", all), 6);
	for (unsigned int line = 2; line <= 7; line++) {
		snprintf(text, sizeof(text), ":%u: ", line);
		assert_int_equal(strstr(all, text) != NULL, line != 5);
	}
	assert_non_null(strstr(all, "idel = poll: unknown key; did you mean idle?"));
	assert_non_null(strstr(all, "ethdef = a: unknown key; did you mean ethdev?"));
	assert_non_null(strstr(all, "--set: [daemon] x = 1"));
	/* One mistake makes no others: of a section that can't be read, of one that there isn't, of what is missing. */
	assert_int_equal(tell_all("[daemon\nidle = poll\nx = y\n", NULL, all), 1);
	assert_int_equal(tell_all("[prot uroce0]\nethdev = a\nmtu = 4200\n", NULL, all), 1);
	assert_int_equal(tell_all("[port uroce99]\nethdev = a\nmtu = 4200\n", NULL, all), 1);
	/* There is an end to it. */
	for (unsigned int i = text[0] = 0; i <= CONFIG_MAX_PROBLEMS; i++)
		strlcat(text, "?\n", sizeof(text));
	assert_int_equal(tell_all(text, NULL, all), CONFIG_MAX_PROBLEMS);
}

static const struct {
	const char *set, *says;
} bad_sets[] = {
	{ "daemon.idle", "section.key=value" },
	{ "idle=poll", "section.key=value" },
	{ ".idle=poll", "section.key=value" },
	{ "daemon.=poll", "section.key=value" },
	{ "daemon.idle=", "1 to 255 characters" },
	{ "daemon.idel=poll", "unknown key" },
	{ "demon.idle=poll", "unknown section" },
	{ "share a.weight=10001", "1 to 10000" },
	{ "daemon.idle=often", "poll adaptive" },
	{ "port uroce0.addresses=10.0.0/24", "10.0.0/24" },
};

static void
each_mistake_in_a_setting_names_the_remedy(void **state)
{
	const char *sets[2] = { "port uroce0.ethdev=net_null0" };
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];
	size_t i;

	for (i = 0; i < sizeof(bad_sets) / sizeof(bad_sets[0]); i++) {
		sets[1] = bad_sets[i].set;
		assert_int_equal(config_load(NULL, sets, 2, &c, err), EINVAL);
		if (strstr(err, bad_sets[i].says) == NULL || strstr(err, "--set") == NULL)
			fail_msg("'%s': '%s' doesn't say '%s'", bad_sets[i].set, err, bad_sets[i].says);
	}
	sets[1] = "port uroce0.ethdev=net_null1";
	assert_int_equal(config_load(NULL, sets, 2, &c, err), EINVAL);
	assert_non_null(strstr(err, "given twice"));
}

static void
every_key_arrives(void **state)
{
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];

	write_file(
		"# comment\n[daemon]\nsocket = /run/a.sock # behind\nsocket_mode = 0660\nsocket_group = 4711\nuser = nobody\nseccomp = off\nidle = "
		"poll\nbalance = on\n"
		"mbufs = 20000\nlog_level = debug\nmax_sessions = 7\nmax_pd = 6\nmax_mr = 5\nmax_cq = 4\nmax_srq = 3\n"
		"max_qp = 2\nmax_ah = 1\nmax_peer_connections = 24\nmax_half_open = 25\nuserfaultfd = on\ntelemetry = off\nsession_max_rings = 9\nsession_max_qp = 11\nsession_max_cq = 12\nsession_max_mr = 13\n"
		"session_max_memory = 14\nsession_max_connects = 15\nuser_max_sessions = 16\nuser_max_qp = 17\nuser_max_cq = 18\n"
		"user_max_mr = 19\nuser_max_memory = 20\nuser_max_connects = 21\nby_reference = off\nlimit_root = on\nhello_timeout = 22\nuser_max_fd = 23\nmetrics = [::1]:9450\n\n[port uroce3]\nethdev = 0000:03:00.0\n"
		"addresses =   198.18.0.1/24   fd00:18::1/64@5 \ngateway4 = 198.18.0.254\ngateway6 = fd00:18::fe\nroutes = 203.0.113.0/24 via 198.18.0.253 , 2001:db8::/32 via fd00:18::fd\nvlan = "
		"100\n"
		"mtu = 4200\npkeys = ffff, 0x8001\nrx_desc = 512\ntx_desc = 256\ncc = swift\nselective_repeat = off\ntail_loss_probe = off\n"
		"credits = off\nack_coalescing = off\nimpair = loss=0.5,seed=3\n");
	if (config_load(path, NULL, 0, &c, err) != 0)
		fail_msg("%s", err);
	assert_string_equal(c.socket, "/run/a.sock");
	assert_int_equal(c.socket_mode, 0660);
	assert_string_equal(c.socket_group, "4711");
	assert_string_equal(c.user, "nobody");
	assert_false(c.seccomp);
	assert_int_equal(c.idle, ENGINE_IDLE_POLL);
	assert_true(c.balance);
	assert_int_equal(c.mbufs, 20000);
	assert_int_equal(c.log_level, 8);
	assert_int_equal(c.max_sessions, 7);
	assert_int_equal(c.max_pd, 6);
	assert_int_equal(c.max_mr, 5);
	assert_int_equal(c.max_cq, 4);
	assert_int_equal(c.max_srq, 3);
	assert_int_equal(c.max_qp, 2);
	assert_int_equal(c.max_ah, 1);
	assert_int_equal(c.max_peer_connections, 24);
	assert_int_equal(c.max_half_open, 25);
	assert_true(c.userfaultfd);
	assert_false(c.telemetry);
	assert_int_equal(c.session_max_rings, 9);
	assert_int_equal(c.session_max_qp, 11);
	assert_int_equal(c.session_max_cq, 12);
	assert_int_equal(c.session_max_mr, 13);
	assert_int_equal(c.session_max_memory, 14);
	assert_int_equal(c.session_max_connects, 15);
	assert_int_equal(c.user_max_sessions, 16);
	assert_int_equal(c.user_max_qp, 17);
	assert_int_equal(c.user_max_cq, 18);
	assert_int_equal(c.user_max_mr, 19);
	assert_int_equal(c.user_max_memory, 20);
	assert_int_equal(c.user_max_connects, 21);
	assert_false(c.by_reference);
	assert_true(c.limit_root);
	assert_int_equal(c.hello_timeout, 22);
	assert_int_equal(c.user_max_fd, 23);
	assert_string_equal(c.metrics, "[::1]:9450");
	assert_int_equal(c.nb_ports, 1);
	assert_string_equal(c.ports[0].net.name, "uroce3");
	assert_string_equal(c.ports[0].net.ethdev, "0000:03:00.0");
	assert_int_equal(c.ports[0].net.nb_addrs, 2);
	assert_int_equal(c.ports[0].net.addrs[0].gid.raw[15], 1);
	assert_int_equal(c.ports[0].net.addrs[1].gid.raw[0], 0xfd);
	assert_int_equal(net_addr_vlan(&c.ports[0].net, &c.ports[0].net.addrs[0]), 100);
	assert_int_equal(net_addr_vlan(&c.ports[0].net, &c.ports[0].net.addrs[1]), 5);
	assert_int_equal(c.ports[0].net.gateway4[3], 254);
	assert_int_equal(c.ports[0].net.gateway6[15], 0xfe);
	assert_int_equal(c.ports[0].net.nb_routes, 2);
	assert_int_equal(c.ports[0].net.routes[0].prefix, 24);
	assert_int_equal(c.ports[0].net.routes[0].router.raw[15], 253);
	assert_int_equal(c.ports[0].net.routes[1].net.raw[1], 1);
	assert_int_equal(c.ports[0].net.vlan_id, 100);
	assert_int_equal(c.ports[0].net.mtu, 4200);
	assert_int_equal(c.ports[0].net.pkeys[0], 0xffff);
	assert_int_equal(c.ports[0].net.pkeys[1], 0x8001);
	assert_int_equal(c.ports[0].net.pkeys[2], 0);
	assert_int_equal(c.ports[0].net.rx_desc, 512);
	assert_int_equal(c.ports[0].net.tx_desc, 256);
	assert_int_equal(c.ports[0].cc, TP_CC_SWIFT);
	assert_false(c.ports[0].features.selective_repeat);
	assert_false(c.ports[0].features.tail_loss_probe);
	assert_false(c.ports[0].features.credits);
	assert_false(c.ports[0].features.ack_coalescing);
	assert_true(c.ports[0].impaired);
	assert_true(c.ports[0].impair.loss == 0.5);
}

static void
the_command_line_wins_over_the_file(void **state)
{
	const char *sets[] = { "daemon.idle=poll", "port uroce0.addresses=198.18.0.7/24", "port uroce1.ethdev=b" };
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];

	write_file("[daemon]\nidle = adaptive\n[port uroce0]\nethdev = a\naddresses = 198.18.0.1/24 198.18.0.2/24\n");
	if (config_load(path, sets, 3, &c, err) != 0)
		fail_msg("%s", err);
	assert_int_equal(c.idle, ENGINE_IDLE_POLL);
	assert_int_equal(c.nb_ports, 2);
	assert_int_equal(c.ports[0].net.nb_addrs, 1);
	assert_int_equal(c.ports[0].net.addrs[0].gid.raw[15], 7);
	assert_string_equal(c.ports[1].net.ethdev, "b");
}

static void
defaults_are_the_largest_limits_and_the_default_socket(void **state)
{
	const char *sets[] = { "port uroce0.ethdev=net_null0" };
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];

	assert_int_equal(config_load(NULL, sets, 1, &c, err), 0);
	assert_string_equal(c.socket, CTL_DEFAULT_SOCKET);
	assert_int_equal(c.socket_mode, 0660);
	assert_string_equal(c.socket_group, "");
	assert_string_equal(c.user, "");
	assert_true(c.seccomp);
	assert_int_equal(c.max_qp, UROCE_MAX_QP);
	assert_int_equal(c.max_mr, UROCE_MAX_MR);
	assert_false(c.balance);
	assert_true(c.by_reference);
	assert_false(c.limit_root);
#define X(kind, session, user, most, unit, plural) \
	assert_int_equal(c.session_max_##kind, session); \
	assert_true(QUOTA_##kind == QUOTA_memory || c.user_max_##kind > 0); \
	assert_true(c.session_max_##kind <= c.user_max_##kind || QUOTA_##kind == QUOTA_rings);
	CONFIG_QUOTAS(X)
#undef X
	/* An MPI program has 1000 QPs and 10,000 MRs. */
	assert_true(c.session_max_qp > 1000 && c.session_max_mr > 10000);
	assert_int_equal(c.ports[0].net.pkeys[0], 0xffff);
	assert_false(c.ports[0].impaired);
	assert_memory_equal(&c.ports[0].features, &((struct tp_features)TP_FEATURES_ALL), sizeof(struct tp_features));
}

static void
a_missing_file_is_named(void **state)
{
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];

	assert_int_equal(config_load("/nonexistent/uroced.conf", NULL, 0, &c, err), ENOENT);
	assert_non_null(strstr(err, "/nonexistent/uroced.conf"));
}

static void
the_sample_configuration_is_good(void **state)
{
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];

	if (config_load(SAMPLE_CONFIG, NULL, 0, &c, err) != 0)
		fail_msg("%s", err);
	assert_int_equal(c.nb_ports, 1);
}

/** Files of any content get an answer, never a crash. */
static void
random_files_are_survived(void **state)
{
	static const char alphabet[] = "[]=#\n\n .\\daemonportuce0123/:;\t\x80\xff";
	struct uroced_config c;
	char err[CONFIG_ERR_BYTES];
	unsigned int seed = 1;
	int i, k, n;
	FILE *f;

	for (i = 0; i < 500; i++) {
		f = fopen(path, "w");
		assert_non_null(f);
		n = rand_r(&seed) % 2000;
		for (k = 0; k < n; k++)
			fputc(alphabet[rand_r(&seed) % (sizeof(alphabet) - 1)], f);
		fclose(f);
		assert_int_not_equal(config_load(path, NULL, 0, &c, err), 0);
	}
}

static int
make_file(void **state)
{
	int fd = mkstemp(path);

	return fd < 0 ? -1 : close(fd);
}

static int
remove_file(void **state)
{
	return unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mistake_in_a_file_names_line_key_and_remedy),
		cmocka_unit_test(wrong_values_of_every_key_are_refused),
		cmocka_unit_test(sections_of_shares_arrive_in_order),
		cmocka_unit_test(lines_that_can_not_be_read_are_named),
		cmocka_unit_test(all_mistakes_are_told_at_once),
		cmocka_unit_test(each_mistake_in_a_setting_names_the_remedy),
		cmocka_unit_test(every_key_arrives),
		cmocka_unit_test(the_command_line_wins_over_the_file),
		cmocka_unit_test(defaults_are_the_largest_limits_and_the_default_socket),
		cmocka_unit_test(a_missing_file_is_named),
		cmocka_unit_test(the_sample_configuration_is_good),
		cmocka_unit_test(random_files_are_survived),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
