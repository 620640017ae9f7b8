/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The socket of net_vhost: what is in its place, and what is said about that. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_ethdev.h>

#include "net/net_priv.h"

enum { ERR_BYTES = 512, NOBODY = 65534 };

static char folder[64], path[80], err[ERR_BYTES];

static int
make_folder(void **state)
{
	strcpy(folder, "/tmp/uroce-vhost-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/vm.sock", folder);
	err[0] = '\0';
	return 0;
}

static int
remove_folder(void **state)
{
	unlink(path);
	return rmdir(folder);
}

/** @return a socket bound to @p path. */
static int
bound(int type)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_NONBLOCK, 0);

	strcpy(sa.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static bool
there(void)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static void
refused(const char *iface, bool client, const char *text)
{
	assert_int_equal(vhost_check_socket(iface, client, err, sizeof(err)), EINVAL);
	if (strstr(err, text) == NULL)
		fail_msg("%s, without: %s", err, text);
}

static void
an_empty_place_in_a_folder_is_good(void **state)
{
	assert_int_equal(vhost_check_socket(path, false, err, sizeof(err)), 0);
	assert_string_equal(err, "");
}

static void
a_folder_that_is_not_there_is_to_be_made(void **state)
{
	refused("/nonexistent/vms/vm.sock", false, "there is no folder /nonexistent/vms; make it (mkdir -p /nonexistent/vms)");
	refused("/proc/version/vm.sock", false, "there is no folder /proc/version");
}

static void
a_path_that_the_pmd_would_cut_off_is_refused(void **state)
{
	char longest[256];

	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "/tmp/", 5);
	longest[107] = '\0';
	assert_int_equal(vhost_check_socket(longest, false, err, sizeof(err)), 0);
	longest[107] = 'a';
	longest[108] = '\0';
	refused(longest, false, "longer than 107 characters");
	refused(longest, true, "longer than 107 characters");
}

static void
a_path_is_needed(void **state)
{
	refused(NULL, false, "iface is missing");
	refused("", true, "iface is missing");
}

static void
a_name_without_a_folder_is_in_the_present_one(void **state)
{
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(vhost_check_socket("vm.sock", false, err, sizeof(err)), 0);
	assert_int_equal(chdir("/"), 0);
}

static void
a_socket_that_a_daemon_left_is_removed(void **state)
{
	close(bound(SOCK_STREAM));
	assert_true(there());
	assert_int_equal(vhost_check_socket(path, false, err, sizeof(err)), 0);
	assert_false(there());
}

static void
who_listens_is_left_alone_and_does_not_notice(void **state)
{
	int types[] = { SOCK_STREAM, SOCK_SEQPACKET };

	for (unsigned int i = 0; i < 2; i++) {
		int fd = bound(types[i]);

		refused(path, false, "another program listens there; name another socket, or add client=1");
		assert_true(there());
		/* As net_vhost and QEMU do. */
		if (types[i] == SOCK_STREAM) {
			assert_int_equal(accept(fd, NULL, NULL), -1);
			assert_int_equal(errno, EAGAIN);
		}
		close(fd);
		unlink(path);
	}
}

static void
a_file_is_left_alone(void **state)
{
	close(open(path, O_CREAT | O_WRONLY, 0600));
	refused(path, false, "something that is no socket is there; remove it");
	assert_true(there());
}

static void
of_a_client_the_socket_may_be_made_later(void **state)
{
	int fd;

	assert_int_equal(vhost_check_socket("/nonexistent/vms/vm.sock", true, err, sizeof(err)), 0);
	fd = bound(SOCK_STREAM);
	assert_int_equal(vhost_check_socket(path, true, err, sizeof(err)), 0);
	assert_true(there());
	close(fd);
}

/** Check as another user, in a process of its own. */
static void
refused_to_nobody(const char *text)
{
	char *said = mmap(NULL, ERR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(setresuid(NOBODY, NOBODY, NOBODY) == 0 && vhost_check_socket(path, false, said, ERR_BYTES) == EINVAL ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	if (strstr(said, text) == NULL)
		fail_msg("%s, without: %s", said, text);
	munmap(said, ERR_BYTES);
}

static void
a_folder_of_somebody_else_is_named_with_the_user(void **state)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(folder, 0755), 0);
	refused_to_nobody("user 65534 can't make a socket in /tmp/uroce-vhost-");
	/* One in which everybody may make something, but only root remove what root has made. */
	assert_int_equal(chmod(folder, 01777), 0);
	close(bound(SOCK_STREAM));
	assert_int_equal(chmod(path, 0777), 0);
	refused_to_nobody("user 65534 can't remove it (Operation not permitted)");
	assert_true(there());
}

static void
names_of_the_driver(void **state)
{
	assert_true(vhost_has_name("net_vhost0"));
	assert_true(vhost_has_name("eth_vhost1"));
	assert_false(vhost_has_name("net_af_packet0"));
	assert_false(vhost_has_name("net_virtio_user0"));
}

static void
the_usual_mtu_is_that_of_ethernet(void **state)
{
	struct rte_eth_dev_info info = { .driver_name = "net_vhost", .max_rx_pktlen = UINT32_MAX, .max_mtu = UINT16_MAX };
	struct pmd_profile prof;
	char devargs[128];

	snprintf(devargs, sizeof(devargs), "iface=%s,queues=2", path);
	assert_int_equal(pmd_profile_get(&info, devargs, &prof, err, sizeof(err)), 0);
	assert_int_equal(prof.default_mtu, 1500);
	assert_true(prof.carries_mtu && prof.max_frame > WIRE_MAX_FRAME_BYTES);
	assert_false(prof.shared || prof.needs_peer || prof.interrupts);
	assert_string_equal(prof.queue_devarg, "queues");
	assert_int_equal(pmd_profile_get(&info, "iface=/nonexistent/vm.sock", &prof, err, sizeof(err)), EINVAL);
	assert_int_equal(pmd_profile_get(&info, "iface=/nonexistent/vm.sock,client=1", &prof, err, sizeof(err)), 0);
	assert_int_equal(pmd_profile_get(&info, NULL, &prof, err, sizeof(err)), EINVAL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_empty_place_in_a_folder_is_good),
		TEST(a_folder_that_is_not_there_is_to_be_made),
		TEST(a_path_that_the_pmd_would_cut_off_is_refused),
		TEST(a_path_is_needed),
		TEST(a_name_without_a_folder_is_in_the_present_one),
		TEST(a_socket_that_a_daemon_left_is_removed),
		TEST(who_listens_is_left_alone_and_does_not_notice),
		TEST(a_file_is_left_alone),
		TEST(of_a_client_the_socket_may_be_made_later),
		TEST(a_folder_of_somebody_else_is_named_with_the_user),
		TEST(names_of_the_driver),
		TEST(the_usual_mtu_is_that_of_ethernet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
