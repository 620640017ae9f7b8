/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What each PMD carries, told by its devargs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_ethdev.h>

#include "net/net_priv.h"

/* Frames of RoCE MTU 1024, 2048 and 4096, with VLAN tag and the largest headers. */
enum {
	FRAME_1024 = 1024 + NET_ROCE_OVERHEAD_BYTES + NET_ETH_VLAN_BYTES,
	FRAME_2048 = 2048 + NET_ROCE_OVERHEAD_BYTES + NET_ETH_VLAN_BYTES,
	FRAME_4096 = 4096 + NET_ROCE_OVERHEAD_BYTES + NET_ETH_VLAN_BYTES,
};

static int
get(const char *driver, const char *devargs, struct pmd_profile *prof, char err[256])
{
	struct rte_eth_dev_info info = { .driver_name = driver, .max_rx_pktlen = 1518, .max_mtu = UINT16_MAX };

	err[0] = '\0';
	return pmd_profile_get(&info, devargs, prof, err, 256);
}

static void
roce_overhead_is_what_linux_reckons(void **state)
{
	assert_int_equal(NET_ROCE_OVERHEAD_BYTES, 96); /* so MTU 1500 is RoCE MTU 1024, 4192 is 4096 */
}

static void
af_packet_default_frames_hold_mtu_1024_only(void **state)
{
	struct pmd_profile prof;
	char err[256];

	assert_int_equal(get("net_af_packet", "iface=eth0", &prof, err), 0);
	assert_true(prof.shared);
	assert_string_equal(prof.netdev, "eth0");
	assert_int_equal(prof.max_frame, 2048 - 66);
	assert_int_equal(prof.pool_room, 2048 - 32);
	assert_true(prof.max_frame >= FRAME_1024 && prof.max_frame < FRAME_2048);
}

static void
af_packet_recommended_devargs_hold_mtu_4096(void **state)
{
	struct pmd_profile prof;
	char err[256];

	assert_int_equal(get("net_af_packet", "iface=eth0,framesz=4352,blocksz=69632,framecnt=512", &prof, err), 0);
	assert_true(prof.max_frame >= FRAME_4096);
	assert_int_equal(69632 % 4352, 0);
	assert_int_equal(69632 % 4096, 0);
}

static void
memif_buffer_size_is_the_frame_size(void **state)
{
	struct pmd_profile prof;
	char err[256];

	assert_int_equal(get("net_memif", "role=client,socket=/tmp/x", &prof, err), 0);
	assert_false(prof.shared);
	assert_true(prof.needs_peer);
	assert_int_equal(prof.max_frame, 2048);
	assert_int_equal(get("net_memif", "role=server", &prof, err), 0);
	assert_false(prof.needs_peer);
	assert_int_equal(get("net_memif", "role=client,bsize=4352", &prof, err), 0);
	assert_true(prof.max_frame >= FRAME_4096);
}

static void
af_xdp_holds_mtu_2048_and_wants_its_program(void **state)
{
	struct pmd_profile prof;
	char err[256];

	assert_int_equal(get("net_af_xdp", "iface=eth0,xdp_prog=/proc/self/exe", &prof, err), 0);
	assert_true(prof.shared && prof.xdp);
	assert_true(prof.max_frame >= FRAME_2048 && prof.max_frame < FRAME_4096);
	assert_int_equal(get("net_af_xdp", "iface=eth0", &prof, err), EINVAL);
	assert_non_null(strstr(err, "xdp_prog=/path/to/uroce_xdp.o"));
	assert_int_equal(get("net_af_xdp", "iface=eth0,xdp_prog=/nonexistent.o", &prof, err), EINVAL);
	assert_non_null(strstr(err, "/nonexistent.o: No such file"));
}

static void
a_nic_says_itself_what_it_carries(void **state)
{
	struct rte_eth_dev_info info = { .driver_name = "net_ice", .max_rx_pktlen = 9728, .max_mtu = 9702 };
	struct pmd_profile prof;
	char err[256];

	assert_int_equal(pmd_profile_get(&info, NULL, &prof, err, sizeof(err)), 0);
	assert_false(prof.shared);
	assert_false(prof.carries_mtu);
	assert_int_equal(prof.max_frame, 9728);
}

static void
mappings_of_memif_get_their_pages(void **state)
{
	enum { PAGES = 64, BYTES = PAGES * 4096 };
	int fds[2] = { memfd_create("memif_region_7", MFD_CLOEXEC), memfd_create("other", MFD_CLOEXEC) };
	unsigned char resident[PAGES];
	struct pmd_profile prof;
	char err[256];
	void *at[2];

	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(ftruncate(fds[i], BYTES), 0);
		at[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
		assert_ptr_not_equal(at[i], MAP_FAILED);
	}
	assert_int_equal(get("net_memif", "role=server,id=0,socket=/tmp/x", &prof, err), 0);
	pmd_populate(&prof);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(mincore(at[i], BYTES, resident), 0);
		for (unsigned int p = 0; p < PAGES; p++)
			assert_int_equal(resident[p] & 1, i == 0);
		munmap(at[i], BYTES);
		close(fds[i]);
	}
	/* Other PMDs' packets are in the mempool, which has its pages. */
	assert_int_equal(get("net_af_packet", "iface=eth0", &prof, err), 0);
	assert_null(prof.mappings);
	pmd_populate(&prof);
}

static void
link_of_nics_whose_interrupts_tell_nothing_is_looked_at(void **state)
{
	struct pmd_profile prof;
	char err[256];

	assert_int_equal(get("net_e1000_em", NULL, &prof, err), 0);
	assert_true(prof.looks_at_link);
	assert_int_equal(get("net_vmxnet3", NULL, &prof, err), 0);
	assert_true(prof.looks_at_link);
	assert_int_equal(get("net_e1000_igb", NULL, &prof, err), 0);
	assert_false(prof.looks_at_link);
}

/* QEMU's RSS in software stalls; see profile_generic(). */
static void
net_virtio_is_not_asked_for_rss(void **state)
{
	struct pmd_profile prof;
	char err[256];

	assert_int_equal(get("net_virtio", NULL, &prof, err), 0);
	assert_true(prof.spreads_unasked);
	assert_int_equal(get("net_ice", NULL, &prof, err), 0);
	assert_false(prof.spreads_unasked);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(net_virtio_is_not_asked_for_rss),
		cmocka_unit_test(link_of_nics_whose_interrupts_tell_nothing_is_looked_at),
		cmocka_unit_test(roce_overhead_is_what_linux_reckons),
		cmocka_unit_test(af_packet_default_frames_hold_mtu_1024_only),
		cmocka_unit_test(af_packet_recommended_devargs_hold_mtu_4096),
		cmocka_unit_test(memif_buffer_size_is_the_frame_size),
		cmocka_unit_test(af_xdp_holds_mtu_2048_and_wants_its_program),
		cmocka_unit_test(mappings_of_memif_get_their_pages),
		cmocka_unit_test(a_nic_says_itself_what_it_carries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
