/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's environment: its arguments, its start and its end. */
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_pdump.h>

#include "base/own_dirs.h"
#include "uroced.h"

/**
 * At its end the daemon can't remove hugepages' files any more if root's folder has them, and their memory would stay taken: have EAL remove them as soon as
 * they are mapped. @return EAL's arguments with that among them, if they say nothing about it.
 */
static char **
eal_args(const struct uroced *u, const struct options *o, int *argc)
{
	static char unlink_files[] = "--huge-unlink";
	char **argv;

	*argc = o->eal_argc;
	for (int i = 1; i < o->eal_argc; i++)
		if (strcmp(o->eal_argv[i], "--no-huge") == 0 || strcmp(o->eal_argv[i], "--in-memory") == 0 ||
		    strncmp(o->eal_argv[i], unlink_files, strlen(unlink_files)) == 0)
			return o->eal_argv;
	argv = u->privileges.id.drop ? calloc((size_t)o->eal_argc + 2, sizeof(*argv)) : NULL;
	if (argv == NULL)
		return o->eal_argv;
	argv[0] = o->eal_argv[0];
	argv[1] = unlink_files;
	memcpy(argv + 2, o->eal_argv + 1, (size_t)(o->eal_argc - 1) * sizeof(*argv));
	(*argc)++;
	return argv; /* EAL keeps it */
}

static bool
hugepages_are_reserved(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long pages = 0;
	char line[256];

	while (f != NULL && pages == 0 && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "HugePages_Total: %lu", &pages) != 1)
			pages = 0;
	if (f != NULL)
		fclose(f);
	return pages != 0;
}

static bool
hugetlbfs_is_mounted(void)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	const struct mntent *m;
	bool found = false;

	while (f != NULL && !found && (m = getmntent(f)) != NULL)
		found = strcmp(m->mnt_type, "hugetlbfs") == 0;
	if (f != NULL)
		endmntent(f);
	return found;
}

/* What to do after EAL didn't start. */
static const char *
eal_remedy(void)
{
	if (!hugepages_are_reserved())
		return "If memory is missing: reserve hugepages (echo 512 > /proc/sys/vm/nr_hugepages) or give EAL --no-huge -m 512";
	if (!hugetlbfs_is_mounted())
		return "Hugepages are reserved, but no hugetlbfs is mounted, where EAL looks for them: mount -t hugetlbfs nodev "
		       "/dev/hugepages, or give EAL --in-memory";
	return "If memory is missing: reserve more hugepages (/proc/sys/vm/nr_hugepages) or give EAL --no-huge -m 512";
}

/* Drivers of virtual devices (docs/ports.md): shared libraries that Debian has in packages of their own. */
static const char *const vdev_drivers[] = { "net_af_packet", "net_af_xdp", "net_memif", "net_tap", "net_vhost" };

/**
 * EAL has no driver of a virtual device, and says no more than that it can't parse the device's name.
 * @return true if the driver's library can't be loaded; @p package is Debian's name of the package that has it.
 */
static bool
driver_is_missing(const char *driver, char *package, size_t size)
{
	char file[128];
	Dl_info eal;
	void *library;
	const char *abi;

	/*
	 * The drivers' files have the same version as that of EAL: librte_eal.so.23. The address comes from the dynamic linker, since what is written
	 * in a program may be that of a stub in it.
	 */
	if (dladdr(dlsym(RTLD_DEFAULT, "rte_eal_init"), &eal) == 0 || (abi = strstr(eal.dli_fname, "librte_eal.so.")) == NULL)
		return false;
	abi += strlen("librte_eal.so.");
	snprintf(file, sizeof(file), "librte_%s.so.%s", driver, abi);
	library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
	if (library != NULL) {
		dlclose(library);
		return false;
	}
	snprintf(package, size, "librte-%s%.*s", driver, (int)strspn(abi, "0123456789"), abi);
	for (char *c = package; *c != '\0'; c++)
		if (*c == '_')
			*c = '-';
	return true;
}

/** @return an error value if a --vdev among EAL's arguments needs a driver that isn't installed; it was said then. */
static int
look_for_drivers(int argc, const char *const *argv)
{
	static const char option[] = "--vdev";
	char package[64];

	for (int i = 1; i < argc; i++) {
		const char *device = argv[i];

		if (strncmp(device, option, strlen(option)) != 0)
			continue;
		device += strlen(option);
		if (*device == '=')
			device++;
		else if (*device == '\0' && i + 1 < argc)
			device = argv[++i];
		for (size_t d = 0; d < sizeof(vdev_drivers) / sizeof(vdev_drivers[0]); d++) {
			size_t n = strlen(vdev_drivers[d]);

			if (strncmp(device, vdev_drivers[d], n) == 0 && isdigit((unsigned char)device[n]) &&
			    driver_is_missing(vdev_drivers[d], package, sizeof(package)))
				return complain("DPDK's driver %s is not installed: apt-get install %s", vdev_drivers[d], package);
		}
	}
	return 0;
}

/** Daemons that began beside others have folders of their own in EAL's (take_vdevs()), which stay when they end. */
static void
clean_folders(void)
{
	const char *path = rte_eal_get_runtime_dir(), *slash = strrchr(path, '/');
	char prefix[NAME_MAX], own[sizeof(".2147483647")];
	size_t n, end;

	if (slash == NULL || (size_t)snprintf(prefix, sizeof(prefix), "%s", slash + 1) >= sizeof(prefix) - 1)
		return;
	n = strlen(prefix);
	end = (size_t)snprintf(own, sizeof(own), ".%d", (int)getpid());
	if (n > end && strcmp(prefix + n - end, own) == 0)
		n -= end;
	strcpy(prefix + n, ".");
	own_dirs_clean(path, prefix);
}

int
eal_start(struct uroced *u, const struct options *o)
{
	int argc;
	char **argv = eal_args(u, o, &argc);
	const char **given = calloc((size_t)argc, sizeof(*given));

	/* EAL writes to argv: its last argument becomes the program's name. */
	if (given != NULL)
		memcpy(given, argv, (size_t)argc * sizeof(*given));
	/* By default EAL's log goes to stderr and to syslog, and with systemd both end in the journal. */
	rte_openlog_stream(stderr);
	if (rte_eal_init(argc, argv) < 0) {
		int err = rte_errno, missing = given != NULL ? look_for_drivers(argc, given) : 0;

		free(given);
		if (missing != 0)
			return missing;
		return complain("DPDK's EAL doesn't start: %s. The lines above say more. %s. If another DPDK program runs: give EAL "
				"--file-prefix NAME",
				rte_strerror(err), eal_remedy());
	}
	free(given);
	u->eal = true;
	clean_folders();
	/* For dpdk-dumpcap, which is a secondary process: it can map our memory only if that is hugepages in files. */
	if (rte_eal_has_hugepages() && rte_eal_process_type() == RTE_PROC_PRIMARY && rte_pdump_init() != 0)
		fprintf(stderr, "uroced: warning: dpdk-dumpcap can't be used: %s\n", rte_strerror(rte_errno));
	return 0;
}

/**
 * @return true if rte_eal_cleanup() may be called. In DPDK 22.11 net_memif's server never removes its listener from
 * EAL's interrupt thread, which then sometimes reads memory that rte_eal_cleanup() has unmapped. The end of the process
 * cleans up as well.
 */
static bool
cleanup_is_safe(const struct uroced *u)
{
	for (unsigned int s = 0; s < u->nb_stacks; s++)
		for (unsigned int i = 0; i < u->confs[s].nb_ports; i++)
			if (strncmp(u->confs[s].ports[i].net.ethdev, "net_memif", strlen("net_memif")) == 0)
				return false;
	return true;
}

void
eal_end(const struct uroced *u)
{
	if (u->eal && cleanup_is_safe(u))
		rte_eal_cleanup();
}
