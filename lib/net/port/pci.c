/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Why a PCI device is no ethdev although the configuration names it: what sysfs and /dev/vfio say, and what would help. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <rte_common.h>

#include "net/port/pmd_priv.h"

enum { NAME_BYTES = 64, FILE_BYTES = 512 };

bool
pci_is_address(const char *name)
{
	static const char form[] = "xxxx:xx:xx.x";

	for (unsigned int i = 0; i < sizeof(form); i++)
		if (form[i] == 'x' ? !isxdigit((unsigned char)name[i]) : name[i] != form[i])
			return false;
	return true;
}

/** Get the last part of what link @p what of a device leads to. @return @p name, "": there is none. */
static const char *
leads_to(const char *root, const char *address, const char *what, char name[NAME_BYTES])
{
	char path[FILE_BYTES], to[FILE_BYTES];
	const char *last;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", root, address, what);
	n = readlink(path, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = '\0';
	last = strrchr(to, '/');
	strlcpy(name, last != NULL ? last + 1 : to, NAME_BYTES);
	return name;
}

/** @return whether DPDK can have a device that is bound to @p driver. The last ones are the kernel's, which share the device with DPDK. */
static bool
is_for_users(const char *driver)
{
	static const char *const drivers[] = { "vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core", "mlx4_core", "mana" };

	for (unsigned int i = 0; i < RTE_DIM(drivers); i++)
		if (strcmp(driver, drivers[i]) == 0)
			return true;
	return false;
}

bool
pci_may_be_opened(const char *root, const char *address)
{
	char driver[NAME_BYTES];

	return pci_is_address(address) && is_for_users(leads_to(root, address, "driver", driver));
}

/**
 * Look for another device of the IOMMU group that the kernel's driver has. All of a group must be vfio's, or nobody's; bridges don't count.
 * @return its address, "": there is none. @param driver  Gets its driver.
 */
static const char *
stranger_in_group(const char *root, const char *address, char other[NAME_BYTES], char driver[NAME_BYTES])
{
	char path[FILE_BYTES];
	const struct dirent *d;
	DIR *dir;

	other[0] = '\0';
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/iommu_group/devices", root, address);
	dir = opendir(path);
	while (dir != NULL && other[0] == '\0' && (d = readdir(dir)) != NULL) {
		if (!pci_is_address(d->d_name) || strcmp(d->d_name, address) == 0)
			continue;
		leads_to(root, d->d_name, "driver", driver);
		if (driver[0] != '\0' && strcmp(driver, "vfio-pci") != 0 && strcmp(driver, "pcieport") != 0)
			strlcpy(other, d->d_name, NAME_BYTES);
	}
	if (dir != NULL)
		closedir(dir);
	return other;
}

/** The device is vfio-pci's. */
static void
explain_vfio(const char *root, const char *address, char *text, size_t bytes)
{
	char group[NAME_BYTES], other[NAME_BYTES], driver[NAME_BYTES], path[FILE_BYTES];

	leads_to(root, address, "iommu_group", group);
	if (group[0] == '\0') {
		snprintf(text, bytes,
			 "PCI device %s is in no IOMMU group: switch the IOMMU on (intel_iommu=on or amd_iommu=on in the kernel's command line), or, without "
			 "its protection, echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode before vfio-pci gets the device",
			 address);
		return;
	}
	if (stranger_in_group(root, address, other, driver)[0] != '\0') {
		snprintf(text, bytes, "PCI device %s shares IOMMU group %s with %s, which the kernel's driver %s has: dpdk-devbind.py --unbind %s, or --bind vfio-pci",
			 address, group, other, driver, other);
		return;
	}
	snprintf(path, sizeof(path), "%s/dev/vfio/%s", root, group);
	if (access(path, F_OK) != 0)
		snprintf(path, sizeof(path), "%s/dev/vfio/noiommu-%s", root, group);
	if (access(path, R_OK | W_OK) != 0)
		snprintf(text, bytes, "%s: %s: run as root, or chown it to the user of the daemon", path, strerror(errno));
	else
		snprintf(text, bytes, "no driver of DPDK took PCI device %s: the lines of EAL above say why (another process has it, no driver for it, --no-pci, or -a "
			 "names others)", address);
}

char *
pci_missing(const char *root, const char *address, char *text, size_t bytes)
{
	char path[FILE_BYTES], driver[NAME_BYTES];

	text[0] = '\0';
	if (!pci_is_address(address))
		return text;
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", root, address);
	if (access(path, F_OK) != 0) {
		snprintf(text, bytes, "there is no PCI device %s; `lspci -D` lists those that there are", address);
		return text;
	}
	leads_to(root, address, "driver", driver);
	if (driver[0] == '\0')
		snprintf(text, bytes, "PCI device %s has no driver: dpdk-devbind.py --bind vfio-pci %s", address, address);
	else if (strcmp(driver, "vfio-pci") == 0)
		explain_vfio(root, address, text, bytes);
	else if (is_for_users(driver))
		snprintf(text, bytes, "no driver of DPDK took PCI device %s: the lines of EAL above say why", address);
	else
		snprintf(text, bytes,
			 "PCI device %s is in use by the kernel's driver %s: dpdk-devbind.py --bind vfio-pci %s (then the kernel has it no more); an interface that the "
			 "kernel must keep is used by net_af_xdp or net_af_packet",
			 address, driver, address);
	return text;
}
