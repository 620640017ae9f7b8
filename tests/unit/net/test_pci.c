/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Why a PCI device is no ethdev: in a /sys and /dev of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/port/pmd_priv.h"

static char root[] = "/tmp/uroce-pci-XXXXXX";

static void __attribute__((format(printf, 1, 2)))
sh(const char *format, ...)
{
	char command[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("%s", command);
}

/** A device in group @p group, 0: in none, with @p driver, NULL: without. */
static void
device(const char *address, const char *driver, unsigned int group)
{
	sh("mkdir -p %s/sys/bus/pci/devices/%s", root, address);
	if (driver != NULL)
		sh("ln -sfn ../../drivers/%s %s/sys/bus/pci/devices/%s/driver", driver, root, address);
	if (group == 0)
		return;
	sh("mkdir -p %s/sys/kernel/iommu_groups/%u/devices && ln -sfn ../../../../bus/pci/devices/%s %s/sys/kernel/iommu_groups/%u/devices/%s", root, group,
	   address, root, group, address);
	sh("ln -sfn ../../../../kernel/iommu_groups/%u %s/sys/bus/pci/devices/%s/iommu_group", group, root, address);
}

static void
expect(const char *address, const char *says)
{
	char text[512];

	pci_missing(root, address, text, sizeof(text));
	if (strstr(text, says) == NULL)
		fail_msg("\"%s\" should say \"%s\"", text, says);
}

static void
each_obstacle_is_named_with_what_helps(void **state)
{
	char text[512];

	assert_string_equal(pci_missing(root, "net_memif0", text, sizeof(text)), "");
	assert_string_equal(pci_missing(root, "0000:03:00.0_1", text, sizeof(text)), "");
	assert_string_equal(pci_missing(root, "0000:0g:00.0", text, sizeof(text)), "");
	device("0000:03:00.0", NULL, 0);
	expect("0000:03:00.1", "there is no PCI device 0000:03:00.1; `lspci -D`");
	expect("0000:03:00.0", "has no driver: dpdk-devbind.py --bind vfio-pci 0000:03:00.0");
	device("0000:03:00.0", "e1000e", 0);
	expect("0000:03:00.0", "is in use by the kernel's driver e1000e: dpdk-devbind.py --bind vfio-pci 0000:03:00.0");
	assert_false(pci_may_be_opened(root, "0000:03:00.0"));
	assert_false(pci_may_be_opened(root, "0000:03:00.1"));
	assert_false(pci_may_be_opened(root, "net_memif0"));
	device("0000:03:00.0", "mlx5_core", 0);
	assert_true(pci_may_be_opened(root, "0000:03:00.0"));
	expect("0000:03:00.0", "no driver of DPDK took PCI device 0000:03:00.0");
	device("0000:03:00.0", "uio_pci_generic", 0);
	assert_true(pci_may_be_opened(root, "0000:03:00.0"));
	expect("0000:03:00.0", "no driver of DPDK took PCI device 0000:03:00.0");
	device("0000:03:00.0", "vfio-pci", 0);
	expect("0000:03:00.0", "is in no IOMMU group: switch the IOMMU on");
	device("0000:03:00.0", "vfio-pci", 7);
	expect("0000:03:00.0", "/dev/vfio/noiommu-7: No such file or directory: run as root");
	device("0000:00:1c.0", "pcieport", 7);
	device("0000:03:00.1", "vfio-pci", 7);
	device("0000:03:00.2", NULL, 7);
	sh("mkdir -p %s/dev/vfio && : > %s/dev/vfio/7", root, root);
	expect("0000:03:00.0", "no driver of DPDK took PCI device 0000:03:00.0");
	device("0000:03:00.2", "snd_hda_intel", 7);
	expect("0000:03:00.0", "shares IOMMU group 7 with 0000:03:00.2, which the kernel's driver snd_hda_intel has: dpdk-devbind.py --unbind 0000:03:00.2");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_obstacle_is_named_with_what_helps),
	};
	int rc;

	if (mkdtemp(root) == NULL)
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	sh("rm -r %s", root);
	return rc;
}
