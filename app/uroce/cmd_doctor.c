/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce doctor: what may be wrong on this machine, each with its remedy. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <mntent.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring/abi.h"
#include "doctor.h"
#include "uroce.h"

enum { ROCE_PORT = 4791, LINE_BYTES = 512, MEMLOCK_LEAST = 64 << 20 };

static json_object *findings;
static unsigned int faults;

void
found(const char *what, enum verdict v, const char *remedy, const char *fmt, ...)
{
	static const char *const words[] = { [GOOD] = "good", [NOTE] = "note", [FAULT] = "fault" };
	json_object *o = json_object_new_object();
	char text[LINE_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_object_object_add(o, "check", json_object_new_string(what));
	json_object_object_add(o, "verdict", json_object_new_string(words[v]));
	json_object_object_add(o, "text", json_object_new_string(text));
	if (remedy != NULL && v != GOOD)
		json_object_object_add(o, "remedy", json_object_new_string(remedy));
	json_object_array_add(findings, o);
	faults += v == FAULT;
	if (target.json)
		return;
	printf("%-5s  %s: %s\n", words[v], what, text);
	if (remedy != NULL && v != GOOD)
		printf("       -> %s\n", remedy);
}

/* @return the number in a file, -1 if it can't be read. */
static long
number_in(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;

	if (f == NULL)
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

/* ---- The machine ---- */
bool
is_mounted(const char *type)
{
	FILE *f = setmntent("/proc/mounts", "re");
	const struct mntent *m;
	bool is = false;

	while (f != NULL && (m = getmntent(f)) != NULL)
		is = is || strcmp(m->mnt_type, type) == 0;
	if (f != NULL)
		endmntent(f);
	return is;
}

long
hugepages_mib(long *free)
{
	static const char *const sizes[] = { "2048", "1048576" };
	char path[PATH_BYTES];
	long all = 0, n;

	*free = 0;
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%skB/nr_hugepages", sizes[i]);
		n = number_in(path);
		all += n > 0 ? n * atol(sizes[i]) / 1024 : 0;
		snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%skB/free_hugepages", sizes[i]);
		n = number_in(path);
		*free += n > 0 ? n * atol(sizes[i]) / 1024 : 0;
	}
	return all;
}

static void
check_hugepages(void)
{
	long free_ones, all = hugepages_mib(&free_ones);

	if (all == 0)
		found("hugepages", NOTE, "echo 512 > /proc/sys/vm/nr_hugepages, as root; or give EAL --no-huge -m 512, which is slower",
		      "none are reserved");
	else if (!is_mounted("hugetlbfs"))
		found("hugepages", NOTE, "mount -t hugetlbfs nodev /dev/hugepages, as root; or give EAL --in-memory",
		      "%ld MiB are reserved, but no hugetlbfs is mounted, where EAL looks for them", all);
	else
		found("hugepages", GOOD, NULL, "%ld MiB reserved, %ld MiB free", all, free_ones);
}

static void
check_memlock(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_MEMLOCK, &l) != 0)
		return;
	if (l.rlim_cur == RLIM_INFINITY)
		found("memlock", GOOD, NULL, "no limit");
	else if (l.rlim_cur < MEMLOCK_LEAST && geteuid() != 0)
		found("memlock", NOTE, "ulimit -l unlimited; for good: a file in /etc/security/limits.d (programs that lock memory themselves need it, as some for "
		      "RDMA do)", "this user may lock %lu KiB", (unsigned long)l.rlim_cur / 1024);
	else
		found("memlock", GOOD, NULL, "%lu KiB", (unsigned long)l.rlim_cur / 1024);
}

static void
check_kernel(void)
{
	long unprivileged = number_in("/proc/sys/vm/unprivileged_userfaultfd");
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd >= 0)
		close(fd);
	if (fd >= 0)
		found("pidfd", GOOD, NULL, "the kernel has it");
	else
		found("pidfd", FAULT, "use Linux 5.6 or later", "the kernel lacks it");
	if (unprivileged == 1 || geteuid() == 0)
		found("userfaultfd", GOOD, NULL, "programs of this user may use it");
	else
		found("userfaultfd", NOTE, "daemon.userfaultfd = on, or sysctl vm.unprivileged_userfaultfd=1: memory of programs with threads is then "
		      "converted in place, which is faster", "only what is privileged may use it");
	fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		close(fd);
	if (fd >= 0)
		found("AF_XDP", GOOD, NULL, "the kernel has it");
	else
		found("AF_XDP", NOTE, "as root, or use net_af_packet, which needs no AF_XDP", "not for this user, or not in this kernel");
}

static void
check_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	char text[64] = "";
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "re");

	if (n < 3)
		found("CPUs", NOTE, "daemon.idle = adaptive; docs/benchmarks.md, \"Few cores\"", "%ld: engines and programs share them", n);
	else
		found("CPUs", GOOD, NULL, "%ld", n);
	if (f == NULL)
		return;
	if (fgets(text, sizeof(text), f) != NULL)
		text[strcspn(text, "\n")] = '\0';
	fclose(f);
	if (strcmp(text, "powersave") == 0)
		found("governor", NOTE, "cpupower frequency-set -g performance, as root: latencies are lower", "powersave");
	else
		found("governor", GOOD, NULL, "%s", text);
}

/* ---- The network ---- */
/* Does the kernel have a UDP socket at the port of RoCE v2 in this namespace? */
static bool
kernel_has_port(const char *file)
{
	FILE *f = fopen(file, "re");
	char line[LINE_BYTES];
	unsigned int port;
	bool has = false;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		has = has || (sscanf(line, "%*u: %*[0-9A-Fa-f]:%x", &port) == 1 && port == ROCE_PORT);
	if (f != NULL)
		fclose(f);
	return has;
}

bool
kernel_has_roce_port(void)
{
	return kernel_has_port("/proc/net/udp") || kernel_has_port("/proc/net/udp6");
}

/* @param shared  the daemon has interfaces that stay the kernel's, and the UDP port on them. It wouldn't run if others had it there. */
static void
check_port(bool shared)
{
	struct stat st;

	if (stat("/sys/module/rdma_rxe", &st) == 0)
		found("rdma_rxe", NOTE, "rdma link delete NAME; modprobe -r rdma_rxe, if it serves an interface of uroced: both would answer",
		      "Soft-RoCE is loaded");
	else
		found("rdma_rxe", GOOD, NULL, "Soft-RoCE isn't loaded");
	if (shared)
		found("UDP 4791", GOOD, NULL, "the daemon has it on the kernel's interfaces that it uses");
	else if (kernel_has_roce_port())
		found("UDP 4791", NOTE, "ss -lunp sport = :4791 says whose it is", "a socket of this machine has the port of RoCE v2");
	else
		found("UDP 4791", GOOD, NULL, "no socket of the kernel has it; a firewall on the way must let it through, in both directions");
}

/* ---- The daemon ---- */
/* @return true if one of them is an interface that stays the kernel's. */
static bool
check_ports(void)
{
	char err[LINE_BYTES], command[COMMAND_BYTES];
	json_object *names = ask_quietly(err, sizeof(err), "/uroce/port"), *port;
	bool shared = false;

	for (size_t i = 0; json_object_is_type(names, json_type_array) && i < json_object_array_length(names); i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(names, i));

		snprintf(command, sizeof(command), "/uroce/port,%s", name);
		port = ask_quietly(err, sizeof(err), command);
		if (port == NULL)
			continue;
		shared = shared || text_of(port, "netdev")[0] != '\0';
		if (strcmp(text_of(port, "link"), "up") != 0)
			found(name, FAULT, "ip link set IFACE up; look at the cable and at the other end", "the link is down");
		else if (value_of(port, "mtu") < 1024)
			found(name, NOTE, "a larger MTU of the interface: 1500 gives a RoCE MTU of 1024, 4200 one of 4096", "RoCE MTU %lu",
			      (unsigned long)value_of(port, "mtu"));
		else
			found(name, GOOD, NULL, "link up, RoCE MTU %lu; programs of both hosts must agree on it", (unsigned long)value_of(port, "mtu"));
		json_object_put(port);
	}
	json_object_put(names);
	return shared;
}

static bool
check_daemon(void)
{
	char err[LINE_BYTES];
	json_object *o = ask_quietly(err, sizeof(err), "/uroce/telemetry");
	const char *path;

	if (o == NULL) {
		found("daemon", FAULT, "see uroced(8); `uroce setup IFACE` writes a configuration; `uroce-lab up` needs none", "%s", err);
		return false;
	}
	path = text_of(o, "socket");
	if (access(path, W_OK) != 0)
		found("daemon", FAULT, "usermod -aG uroce USER, and log in anew; or daemon.socket_mode", "%s: not for this user", path);
	else if (value_of(o, "abi") != UROCE_ABI_VERSION)
		found("daemon", FAULT, "restart the daemon: it is another version than the installed libraries", "it has ABI %lu, this program %d",
		      (unsigned long)value_of(o, "abi"), UROCE_ABI_VERSION);
	else
		found("daemon", GOOD, NULL, "uroced %s, pid %lu, user %lu, %s", text_of(o, "version"), (unsigned long)value_of(o, "pid"),
		      (unsigned long)value_of(o, "uid"), path);
	if (geteuid() == 0 && value_of(o, "uid") == 0)
		found("user", NOTE, "useradd --system --user-group --shell /usr/sbin/nologin uroce: the daemon then becomes that user",
		      "the daemon serves programs as root");
	json_object_put(o);
	return check_ports();
}

static void
check_programs(void)
{
	static const char *const programs[][2] = { { "ibv_devinfo", "ibverbs-utils" }, { "ib_write_bw", "perftest" }, { "ip", "iproute2" } };
	char path[PATH_BYTES];

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		bool there = false;

		for (const char *p = getenv("PATH"); p != NULL && *p != '\0' && !there; p += strcspn(p, ":"), p += *p == ':') {
			snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(p, ":"), p, programs[i][0]);
			there = access(path, X_OK) == 0;
		}
		snprintf(path, sizeof(path), "apt-get install %s", programs[i][1]);
		if (!there)
			found(programs[i][0], NOTE, path, "it isn't installed; labs and the documents use it");
	}
}

int
cmd_doctor(int argc, char **argv)
{
	uint8_t ip[16];
	bool shared;
	int rc = 0;

	if (argc > 0)
		return usage("doctor: nothing follows it, as '%s' does", argv[0]);
	if (options.peer != NULL && inet_pton(AF_INET, options.peer, ip) != 1 && inet_pton(AF_INET6, options.peer, ip) != 1)
		return usage("--peer %s: no IP address", options.peer);
	if (target.lab != NULL && socket_path() == NULL)
		return EXIT_FAILED;
	findings = json_object_new_array();
	shared = check_daemon();
	check_hugepages();
	check_memlock();
	check_kernel();
	check_cpus();
	check_port(shared);
	check_firewall();
	if (options.peer != NULL)
		check_peer(options.peer);
	check_programs();
	if (target.json)
		rc = show_json(findings);
	json_object_put(findings);
	return rc == 0 && faults > 0 ? EXIT_FAILED : rc;
}
