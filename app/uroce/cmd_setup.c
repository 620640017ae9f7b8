/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce setup: a configuration for an interface. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"
#include "uroce.h"

enum {
	ADDRESSES_MAX = 8,
	MTU_MAX = 9600,          /* of a port */
	AF_PACKET_MTU = 1964,    /* that net_af_packet carries without devargs */
	HUGEPAGES_MIB = 512,     /* free ones that a daemon should find */
	MEMORY_MIB = 512,        /* without hugepages */
};

#define AF_PACKET_LARGE ",framesz=4352,blocksz=69632,framecnt=512"
#define FEW_CPUS 3           /* as doctor has it */

struct interface {
	const char *name;
	int mtu;
	bool up, wireless;
	char addresses[ADDRESSES_MAX][INET6_ADDRSTRLEN + 8];
	unsigned int nb_addresses;
};

static unsigned int
prefix_of(const struct sockaddr *mask)
{
	const uint8_t *p = mask->sa_family == AF_INET ? (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr
						      : (const uint8_t *)&((const struct sockaddr_in6 *)mask)->sin6_addr;
	unsigned int n = 0;

	for (unsigned int i = 0; i < (mask->sa_family == AF_INET ? 4u : 16u); i++)
		n += (unsigned int)__builtin_popcount(p[i]);
	return n;
}

static void
add_address(struct interface *f, const struct ifaddrs *a)
{
	char text[INET6_ADDRSTRLEN];
	const void *ip;

	/* uroced refuses addresses of loopback. */
	if ((a->ifa_flags & IFF_LOOPBACK) != 0)
		return;
	if (a->ifa_addr == NULL || a->ifa_netmask == NULL || f->nb_addresses == ADDRESSES_MAX)
		return;
	if (a->ifa_addr->sa_family == AF_INET)
		ip = &((const struct sockaddr_in *)a->ifa_addr)->sin_addr;
	/* The port makes its link-local address itself. */
	else if (a->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr))
		ip = &((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr;
	else
		return;
	inet_ntop(a->ifa_addr->sa_family, ip, text, sizeof(text));
	snprintf(f->addresses[f->nb_addresses++], sizeof(f->addresses[0]), "%s/%u", text, prefix_of(a->ifa_netmask));
}

/* @return 0, or an exit status with a message printed. */
static int
look_at(struct interface *f)
{
	struct ifaddrs *all = NULL;
	struct ifreq r = { 0 };
	char path[PATH_BYTES], names[PATH_BYTES] = "";
	int s;

	if (if_nametoindex(f->name) == 0) {
		struct if_nameindex *list = if_nameindex();

		for (const struct if_nameindex *i = list; i != NULL && i->if_index != 0; i++)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", i->if_name);
		if_freenameindex(list);
		return fail("no interface '%s'; there are:%s", f->name, names);
	}
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", f->name);
	if (s < 0 || ioctl(s, SIOCGIFMTU, &r) != 0)
		return fail("%s: %s", f->name, strerror(errno));
	f->mtu = r.ifr_mtu;
	if (ioctl(s, SIOCGIFFLAGS, &r) == 0)
		f->up = (r.ifr_flags & IFF_UP) != 0;
	close(s);
	snprintf(path, sizeof(path), "/sys/class/net/%s/wireless", f->name);
	f->wireless = access(path, F_OK) == 0;
	if (getifaddrs(&all) != 0)
		return fail("the addresses of %s: %s", f->name, strerror(errno));
	for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next)
		if (strcmp(a->ifa_name, f->name) == 0)
			add_address(f, a);
	freeifaddrs(all);
	return 0;
}

static bool
has_hugepages(void)
{
	long n;

	return hugepages_mib(&n) > 0 && n >= HUGEPAGES_MIB && is_mounted("hugetlbfs");
}

/* What the user should know about the machine. */
static void
advise_machine(const struct interface *f)
{
	if (!has_hugepages())
		fprintf(stderr, "uroce: note: fewer than %d MiB of hugepages are free, so EAL's options are those without, which is slower "
				"(echo 512 >/proc/sys/vm/nr_hugepages, as root)\n", HUGEPAGES_MIB);
	if (geteuid() != 0)
		fprintf(stderr, "uroce: note: to open %s the daemon must be started as root, or have the capabilities NET_RAW and NET_ADMIN\n", f->name);
	if (kernel_has_roce_port())
		fprintf(stderr, "uroce: note: a socket of this machine has UDP port 4791 already: a running uroced, or Soft-RoCE (uroce doctor)\n");
}

/* What the user should know about the interface. */
static void
advise(const struct interface *f)
{
	if (!f->up)
		fprintf(stderr, "uroce: note: %s is down: ip link set %s up\n", f->name, f->name);
	if (f->nb_addresses == 0)
		fprintf(stderr, "uroce: note: %s has no address: give it one (ip addr add 198.18.0.1/24 dev %s), or write one into the configuration\n", f->name,
			f->name);
	if (f->wireless)
		fprintf(stderr, "uroce: note: %s is wireless: losses and delays will be those of radio\n", f->name);
	if (roce_mtu(f->mtu) < 4096)
		fprintf(stderr, "uroce: note: with MTU %d RoCE packets carry %d bytes; 4200 on both hosts and the switch gives 4096 (ip link set %s mtu 4200)\n",
			f->mtu, roce_mtu(f->mtu), f->name);
	if (options.peer != NULL && path_carries(options.peer, f->name, f->mtu) == PATH_NO)
		fprintf(stderr, "uroce: note: %s doesn't answer a ping with packets of the whole MTU (%d): wrong address, a firewall, or a smaller MTU on the way\n",
			options.peer, f->mtu);
}

static void
write_configuration(FILE *out, const struct interface *f)
{
	fprintf(out, "# uroced on %s; uroced.conf(5) has all keys.\n[daemon]\nsocket = /run/uroce/uroced.sock\n", f->name);
	if (sysconf(_SC_NPROCESSORS_ONLN) < FEW_CPUS)
		fputs("idle = adaptive\n", out);
	fputs("\n[port uroce0]\nethdev = net_af_packet0\n", out);
	if (f->nb_addresses > 0) {
		fputs("addresses =", out);
		for (unsigned int i = 0; i < f->nb_addresses; i++)
			fprintf(out, " %s", f->addresses[i]);
		fputc('\n', out);
	} else {
		fputs("# addresses = 198.18.0.1/24\n", out);
	}
	fprintf(out, "mtu = %d\n", f->mtu < MTU_MAX ? f->mtu : MTU_MAX);
}

/* @return 0 or EXIT_FAILED. */
static int
write_file(const struct interface *f)
{
	int fd = open(options.write, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
	bool good;

	if (out == NULL)
		return fail("%s: %s", options.write, errno == EEXIST ? "is there already; remove it or name another file" : strerror(errno));
	write_configuration(out, f);
	good = fflush(out) == 0 && ferror(out) == 0;
	return fclose(out) == 0 && good ? 0 : fail("%s: %s", options.write, strerror(errno));
}

/* EAL's options that go with the configuration. */
static void
eal_options(const struct interface *f, char *text, size_t bytes)
{
	char memory[32] = "";

	if (!has_hugepages())
		snprintf(memory, sizeof(memory), " --no-huge -m %d", MEMORY_MIB);
	snprintf(text, bytes, "%s%s --no-pci --vdev net_af_packet0,iface=%s%s", sysconf(_SC_NPROCESSORS_ONLN) > 1 ? "-l 0-1" : "--lcores 0@0,1@0", memory,
		 f->name, f->mtu > AF_PACKET_MTU ? AF_PACKET_LARGE : "");
}

static void
print_next(const struct interface *f)
{
	char path[PATH_BYTES], driver[PATH_BYTES] = "", eal[PATH_BYTES];
	ssize_t n;

	eal_options(f, eal, sizeof(eal));
	printf("# For the service, in /etc/uroce/uroced.env:\n");
	printf("#   UROCED_EAL=\"%s\"\n", eal);
	printf("# Or without it, as root:\n");
	printf("#   uroced %s -- --config %s\n", eal, options.write != NULL ? options.write : "FILE");
	printf("# Faster, with AF_XDP: ethdev = net_af_xdp0 and --vdev net_af_xdp0,iface=%s\n", f->name);
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", f->name);
	n = readlink(path, driver, sizeof(driver) - 1);
	if (n > 0 && strrchr(driver, '/') != NULL && strchr(driver, ':') != NULL)
		printf("# Fastest, taken from the kernel: dpdk-devbind.py -b vfio-pci %s; ethdev = %s and -a %s\n", strrchr(driver, '/') + 1,
		       strrchr(driver, '/') + 1, strrchr(driver, '/') + 1);
	printf("# On the other host: uroce setup IFACE --peer %.*s\n", f->nb_addresses > 0 ? (int)strcspn(f->addresses[0], "/") : 7,
	       f->nb_addresses > 0 ? f->addresses[0] : "ADDRESS");
	printf("# Between the two: UDP port 4791 open in both directions\n");
}

static int
setup_json(const struct interface *f)
{
	json_object *o = json_object_new_object(), *a = json_object_new_array();
	char eal[PATH_BYTES];
	int rc;

	for (unsigned int i = 0; i < f->nb_addresses; i++)
		json_object_array_add(a, json_object_new_string(f->addresses[i]));
	json_object_object_add(o, "interface", json_object_new_string(f->name));
	json_object_object_add(o, "up", json_object_new_boolean(f->up));
	json_object_object_add(o, "mtu", json_object_new_int(f->mtu));
	json_object_object_add(o, "roce_mtu", json_object_new_int(roce_mtu(f->mtu)));
	json_object_object_add(o, "addresses", a);
	eal_options(f, eal, sizeof(eal));
	json_object_object_add(o, "eal", json_object_new_string(eal));
	rc = show_json(o);
	json_object_put(o);
	return rc;
}

int
cmd_setup(int argc, char **argv)
{
	struct interface f = { 0 };
	uint8_t ip[16];
	int rc;

	if (argc != 1)
		return usage("setup: give one interface; `ip link` lists them");
	if (options.peer != NULL && inet_pton(AF_INET, options.peer, ip) != 1 && inet_pton(AF_INET6, options.peer, ip) != 1)
		return usage("--peer %s: no IP address", options.peer);
	f.name = argv[0];
	rc = look_at(&f);
	if (rc != 0)
		return rc;
	advise(&f);
	advise_machine(&f);
	if (options.write != NULL && (rc = write_file(&f)) != 0)
		return rc;
	if (target.json)
		return setup_json(&f);
	if (options.write == NULL)
		write_configuration(stdout, &f);
	print_next(&f);
	return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}
