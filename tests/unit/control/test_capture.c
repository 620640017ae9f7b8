/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures: what is in the file is what went over the port, with the reason of drops; what is wrong is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_mbuf.h>

#include "control/observe/capture.h"
#include "daemon.h"
#include "transport/transport.h"

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_STATISTICS = 5, BLOCK_PACKET = 6, MAX_BLOCKS = 64 };

static char file[64];

/** A block of the file: its type and what is between the lengths. */
struct block {
	uint32_t type, bytes;
	const uint8_t *body;
};
static uint8_t bytes[1 << 20];
static struct block blocks[MAX_BLOCKS];
static unsigned int nb_blocks;

/** Read the file; every block's two lengths must agree and the last one end with it. */
static void
read_file(void)
{
	FILE *f = fopen(file, "rb");
	size_t n, at;

	assert_non_null(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	nb_blocks = 0;
	for (at = 0; at < n;) {
		uint32_t head[2], again;

		assert_true(at + 12 <= n && nb_blocks < MAX_BLOCKS);
		memcpy(head, bytes + at, sizeof(head));
		assert_true(head[1] >= 12 && head[1] % 4 == 0 && at + head[1] <= n);
		memcpy(&again, bytes + at + head[1] - 4, sizeof(again));
		assert_int_equal(head[1], again);
		blocks[nb_blocks++] = (struct block){ head[0], head[1] - 12, bytes + at + 8 };
		at += head[1];
	}
}

static unsigned int
count_blocks(uint32_t type)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < nb_blocks; i++)
		n += blocks[i].type == type;
	return n;
}

/** @return the n th packet's block, counted from 0. */
static const struct block *
nth_packet(unsigned int n)
{
	for (unsigned int i = 0; i < nb_blocks; i++)
		if (blocks[i].type == BLOCK_PACKET && n-- == 0)
			return &blocks[i];
	fail_msg("too few packets");
	return NULL;
}

static bool
contains(const struct block *b, const char *text)
{
	return memmem(b->body, b->bytes, text, strlen(text)) != NULL;
}

static uint32_t
make_frame(uint8_t frame[WIRE_MAX_FRAME_BYTES])
{
	static const struct wire_addr a = {
		.dmac = { 2, 0, 0, 0, 0, 1 }, .smac = { 2, 0, 0, 0, 0, 2 }, .ip_version = 4, .ttl = 64, .sport = 50000,
		.sip = { 198, 18, 0, 2 }, .dip = { 198, 18, 0, 1 },
	};
	static const uint8_t mad[TP_MAD_BYTES] = { 1 };

	return gsi_build(frame, &a, WIRE_PKEY_DEFAULT, 1, mad);
}

/** An ARP request for the daemon's address. */
static uint32_t
make_arp(uint8_t frame[64])
{
	static const uint8_t arp[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 8, 6,
				       0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 198, 18, 0, 2,
				       0, 0, 0, 0, 0, 0, 198, 18, 0, 1 };

	memset(frame, 0, 64);
	memcpy(frame, arp, sizeof(arp));
	return 60;
}

/** Wait until the capture has @p n packets. */
static void
wait_packets(uint64_t n)
{
	struct capture_stats s;

	for (int i = 0; i < 10000; i++) {
		assert_true(control_capture_status(daemon_control(), &s));
		if (s.packets >= n)
			return;
		usleep(1000);
	}
	fail_msg("%lu packets, not %lu", (unsigned long)s.packets, (unsigned long)n);
}

static void
packets_both_ways_and_the_reason_of_a_drop_are_in_the_file(void **state)
{
	struct capture_params p = { .file = file };
	char err[CONFIG_ERR_BYTES];
	uint8_t frame[WIRE_MAX_FRAME_BYTES], arp[64];
	uint32_t n = make_frame(frame), len;
	struct capture_stats s;
	struct rte_mbuf *m;
	struct stat st;

	assert_int_equal(control_capture_start(daemon_control(), &p, -1, 0, err), 0);
	daemon_wire_put(arp, make_arp(arp));
	m = daemon_wire_take(5000);
	assert_non_null(m);
	rte_pktmbuf_free(m);
	wait_packets(2);
	frame[n - 1] ^= 1;
	daemon_wire_put(frame, n);
	wait_packets(3);
	assert_int_equal(control_capture_stop(daemon_control(), &s), 0);
	assert_int_equal(s.packets, 3);
	assert_int_equal(s.missed, 0);
	assert_int_equal(s.error, 0);
	/* Afterwards nothing is looked at. */
	daemon_wire_put(frame, n);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	read_file();
	assert_int_equal(blocks[0].type, BLOCK_SECTION);
	assert_int_equal(count_blocks(BLOCK_INTERFACE), 1);
	assert_true(contains(&blocks[1], "uroce0"));
	assert_int_equal(count_blocks(BLOCK_PACKET), 3);
	assert_int_equal(count_blocks(BLOCK_STATISTICS), 1);
	/* Interface, time, captured and original length, data. */
	assert_memory_equal(nth_packet(0)->body + 20, arp, 60);
	assert_false(contains(nth_packet(0), "dropped"));
	memcpy(&len, nth_packet(2)->body + 16, sizeof(len));
	assert_int_equal(len, n);
	assert_memory_equal(nth_packet(2)->body + 20, frame, n);
	assert_true(contains(nth_packet(2), "dropped: rx_icrc_encapsulated"));
	unlink(file);
}

static void
snap_cuts_packets_and_says_how_long_they_were(void **state)
{
	struct capture_params p = { .file = file, .snap_bytes = CAPTURE_SNAP_MIN };
	uint8_t frame[WIRE_MAX_FRAME_BYTES];
	char err[CONFIG_ERR_BYTES];
	struct capture_stats s;
	uint32_t n = make_frame(frame), len[2];

	assert_int_equal(control_capture_start(daemon_control(), &p, 0, 0, err), 0);
	daemon_wire_put(frame, n);
	wait_packets(1);
	assert_int_equal(control_capture_stop(daemon_control(), &s), 0);
	assert_int_equal(s.bytes, CAPTURE_SNAP_MIN);
	read_file();
	memcpy(len, nth_packet(0)->body + 12, sizeof(len));
	assert_int_equal(len[0], CAPTURE_SNAP_MIN);
	assert_int_equal(len[1], n);
	unlink(file);
}

static void
refused(const struct capture_params *p, int port, uint32_t qpn, int rc, const char *why)
{
	char err[CONFIG_ERR_BYTES];

	assert_int_equal(control_capture_start(daemon_control(), p, port, qpn, err), rc);
	if (strstr(err, why) == NULL)
		fail_msg("'%s' isn't in '%s'", why, err);
}

static void
what_cant_be_captured_is_refused_with_the_remedy(void **state)
{
	struct capture_params good = { .file = file };
	char err[CONFIG_ERR_BYTES];
	struct capture_stats s;

	assert_int_equal(control_capture_stop(daemon_control(), &s), ENOENT);
	assert_false(control_capture_status(daemon_control(), &s));
	refused(&(struct capture_params){ .file = "relative" }, -1, 0, EINVAL, "must be an absolute path");
	refused(&(struct capture_params){ .file = "/nowhere/at/all" }, -1, 0, ENOENT, "in a folder that does");
	refused(&(struct capture_params){ .file = "/dev/null" }, -1, 0, EEXIST, "give a file that doesn't exist");
	refused(&good, 7, 0, ENOENT, "there is no port 7: there are 1");
	refused(&good, -1, 99, ENOENT, "there is no QP 0x63");
	refused(&(struct capture_params){ .file = file, .snap_bytes = 1 }, -1, 0, EINVAL, "snap must be at least 64");
	/* None of them has left a file, or the port taken. */
	assert_int_equal(access(file, F_OK), -1);
	assert_int_equal(control_capture_start(daemon_control(), &good, -1, 0, err), 0);
	refused(&good, -1, 0, EBUSY, "runs already");
	assert_int_equal(control_capture_stop(daemon_control(), &s), 0);
	unlink(file);
}

static const char *
host_name(struct control *c, unsigned int port)
{
	return c == daemon_control() && port == 0 ? "a-host" : NULL;
}

static void
an_applications_capture_is_ended_by_nobody_else(void **state)
{
	struct capture_from from = { .control = daemon_control(), .ports = UINT32_MAX, .name = host_name };
	struct capture_params p = { .file = file, .overwrite = true };
	char err[CONFIG_ERR_BYTES], old[4096] = "what was there before";
	struct capture_stats s;
	struct capture *k;
	uint8_t arp[64];
	FILE *f;

	f = fopen(file, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(old, sizeof(old), 1, f), 1);
	fclose(f);
	assert_int_equal(capture_start(&p, &from, 0, &k, err), EINVAL);
	assert_int_equal(capture_start(&p, &from, 1, &k, err), 0);
	refused(&(struct capture_params){ .file = "/tmp/x" }, -1, 0, EBUSY, file);
	assert_int_equal(control_capture_stop(daemon_control(), &s), EPERM);
	daemon_wire_put(arp, make_arp(arp));
	wait_packets(2);
	capture_stop(k, &s);
	assert_false(s.running);
	assert_int_equal(s.ports, 1);
	assert_int_equal(s.packets, 2);
	assert_int_equal(control_capture_stop(daemon_control(), &s), ENOENT);
	rte_pktmbuf_free(daemon_wire_take(5000));
	read_file();
	assert_int_equal(count_blocks(BLOCK_PACKET), 2);
	assert_true(contains(&blocks[1], "a-host"));
	unlink(file);
}

static int
setup(void **state)
{
	snprintf(file, sizeof(file), "/tmp/uroce-test-%d.pcapng", (int)getpid());
	daemon_start("test_capture", 100, 1000);
	return 0;
}

static int
teardown(void **state)
{
	struct capture_params p = { .file = file };
	char err[CONFIG_ERR_BYTES];

	/* A daemon that ends ends its capture. */
	if (control_capture_start(daemon_control(), &p, -1, 0, err) != 0)
		return 1;
	daemon_stop();
	read_file();
	unlink(file);
	return count_blocks(BLOCK_STATISTICS) == 1 ? 0 : 1;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_both_ways_and_the_reason_of_a_drop_are_in_the_file),
		cmocka_unit_test(snap_cuts_packets_and_says_how_long_they_were),
		cmocka_unit_test(what_cant_be_captured_is_refused_with_the_remedy),
		cmocka_unit_test(an_applications_capture_is_ended_by_nobody_else),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
