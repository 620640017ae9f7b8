/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/observe/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "control/core/control_priv.h"

enum {
	FILE_MODE = 0444,
	FOLDER_MODE = 0755,
	TREE_FDS = 16,
	TEXT_BYTES = 128,
	BELOW_BYTES = 256,                                            /* a name in the folder */
	PATH_BYTES = CONFIG_SOCKET_BYTES + sizeof(".sys/") + BELOW_BYTES, /* the whole of it */
};

/** The folder, or a place below it. */
static void
place(const struct control *c, char *path, const char *below)
{
	snprintf(path, PATH_BYTES, "%s.sys%s%s", c->s.conf->socket, below[0] != '\0' ? "/" : "", below);
}

/** Make the folders above @p path that aren't there, from @p root on. */
static int
make_folders(char *path, size_t root)
{
	for (char *slash = strchr(path + root, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		int rc;

		*slash = '\0';
		rc = mkdir(path, FOLDER_MODE) == 0 ? chmod(path, FOLDER_MODE) : errno == EEXIST ? 0 : -1;
		*slash = '/';
		if (rc != 0)
			return errno;
	}
	return 0;
}

static int put(const struct control *c, const char *below, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** Write one file, in whole: a program that reads it meanwhile has the old one. @return 0 or an errno value. */
static int
put(const struct control *c, const char *below, const char *fmt, ...)
{
	char path[PATH_BYTES], new[PATH_BYTES + 1], text[TEXT_BYTES];
	int fd, n, rc;
	va_list ap;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	place(c, path, below);
	rc = make_folders(path, strlen(c->s.conf->socket) + strlen(".sys"));
	if (rc != 0)
		return rc;
	snprintf(new, sizeof(new), "%s~", path);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return errno;
	rc = write(fd, text, (size_t)n) == n && fchmod(fd, FILE_MODE) == 0 ? 0 : errno;
	close(fd);
	if (rc == 0 && rename(new, path) != 0)
		rc = errno;
	if (rc != 0)
		unlink(new);
	return rc;
}

/** Four groups of a GUID, or eight of a GID, as the kernel writes them. */
static void
groups(char *text, const uint8_t *bytes, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sprintf(text + 5 * i, "%02x%02x%s", bytes[2 * i], bytes[2 * i + 1], i + 1 < n ? ":" : "");
}

/** A name below the folder of port @p p: "ports/1/gids/" with a number behind it, if that isn't negative. */
static const char *
of_port(const struct net_port *p, const char *what, int number, char *below)
{
	char digits[16] = "";

	if (number >= 0)
		snprintf(digits, sizeof(digits), "%d", number);
	snprintf(below, BELOW_BYTES, "sys/class/infiniband/%s/%s%s", p->conf.name, what, digits);
	return below;
}

static int
write_tables(const struct control *c, const struct net_port *p)
{
	char b[BELOW_BYTES], gid[8 * 5 + 1];
	int rc = 0;

	for (int i = 0; i < UROCE_MAX_GIDS && rc == 0; i++) {
		groups(gid, p->gid[i], 8);
		rc = put(c, of_port(p, "ports/1/gids/", i, b), "%s\n", gid);
		/* As in sysfs, where reading the type of an unused entry fails. */
		if (!p->gid_used[i])
			continue;
		if (rc == 0)
			rc = put(c, of_port(p, "ports/1/gid_attrs/types/", i, b), "RoCE v2\n");
		if (rc == 0 && p->netdev[0] != '\0')
			rc = put(c, of_port(p, "ports/1/gid_attrs/ndevs/", i, b), "%s\n", p->netdev);
	}
	for (int i = 0; i < UROCE_MAX_PKEYS && rc == 0; i++)
		rc = put(c, of_port(p, "ports/1/pkeys/", i, b), "0x%04x\n", p->conf.pkeys[i]);
	return rc;
}

/** @return 0 or an errno value. */
static int
write_link(const struct control *c, const struct net_port *p)
{
	bool up = c->link_up[p->index];
	uint32_t mbps = 0;
	char b[BELOW_BYTES];
	int rc;

	net_port_link(p, &mbps);
	/* Virtual ports don't know their speed; as ibv_query_port() has it. */
	if (mbps == 0 || mbps == UINT32_MAX)
		mbps = 10000;
	rc = put(c, of_port(p, "ports/1/state", -1, b), "%s\n", up ? "4: ACTIVE" : "1: DOWN");
	if (rc == 0)
		rc = put(c, of_port(p, "ports/1/phys_state", -1, b), "%s\n", up ? "5: LinkUp" : "3: Disabled");
	if (rc == 0)
		rc = put(c, of_port(p, "ports/1/rate", -1, b), "%g Gb/sec\n", mbps / 1000.0);
	return rc;
}

static int
write_port(const struct control *c, const struct net_port *p)
{
	char b[BELOW_BYTES], path[PATH_BYTES], guid[4 * 5 + 1];
	uint64_t v = rte_cpu_to_be_64(control_port_guid(p));
	int rc;

	groups(guid, (const uint8_t *)&v, 4);
	rc = put(c, of_port(p, "node_type", -1, b), "1: CA\n");
	if (rc == 0)
		rc = put(c, of_port(p, "node_guid", -1, b), "%s\n", guid);
	if (rc == 0)
		rc = put(c, of_port(p, "fw_ver", -1, b), "%s\n", UROCE_VERSION);
	if (rc == 0)
		rc = put(c, of_port(p, "device/numa_node", -1, b), "%d\n", rte_eth_dev_socket_id(p->port_id));
	if (rc == 0)
		rc = put(c, of_port(p, "ports/1/link_layer", -1, b), "Ethernet\n");
	if (rc == 0)
		rc = put(c, of_port(p, "ports/1/lid", -1, b), "0x0\n");
	if (rc == 0)
		rc = write_link(c, p);
	if (rc == 0)
		rc = write_tables(c, p);
	if (rc != 0)
		return rc;
	/* A character device that everybody may open is all that programs make sure of. */
	snprintf(b, sizeof(b), "dev/infiniband/%s", p->conf.name);
	place(c, path, b);
	rc = make_folders(path, strlen(c->s.conf->socket) + strlen(".sys"));
	return rc != 0 ? rc : symlink("/dev/null", path) == 0 ? 0 : errno;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

/** Whatever is there. */
static void
clear(const struct control *c)
{
	char root[PATH_BYTES];
	struct stat st;

	place(c, root, "");
	/* Nobody else's: it may stand in a folder where others write. */
	if (lstat(root, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid())
		nftw(root, remove_one, TREE_FDS, FTW_DEPTH | FTW_PHYS);
}

void
sysfs_remove(struct control *c)
{
	if (c->sysfs)
		clear(c);
	c->sysfs = false;
}

static void
warn(const struct control *c, int rc)
{
	CTL_LOG(WARNING, "%s.sys can't be written: %s; programs that look into /sys/class/infiniband find nothing", c->s.conf->socket,
		strerror(rc));
}

void
sysfs_write(struct control *c)
{
	char root[PATH_BYTES];
	int rc;

	clear(c);
	c->sysfs = true;
	place(c, root, "");
	rc = mkdir(root, FOLDER_MODE) == 0 && chmod(root, FOLDER_MODE) == 0 ? 0 : errno;
	for (uint16_t i = 0; i < c->s.nb_ports && rc == 0; i++)
		rc = write_port(c, c->s.ports[i]);
	if (rc != 0)
		warn(c, rc);
}

void
sysfs_write_link(const struct control *c, uint16_t port)
{
	int rc = write_link(c, c->s.ports[port]);

	if (rc != 0)
		warn(c, rc);
}
