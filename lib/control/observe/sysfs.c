/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/observe/sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "base/beneath.h"
#include "control/core/control_priv.h"

enum {
	FILE_MODE = 0444,
	FOLDER_MODE = 0755,
	TREE_DEPTH = 16,
	TEXT_BYTES = 128,
	BELOW_BYTES = 256,                                            /* of a name in the directory */
	PATH_BYTES = CONFIG_SOCKET_BYTES + sizeof(".sys/") + BELOW_BYTES, /* of the whole path */
};

/** The state while the directory is written. */
struct tree {
	const struct control *c;
	int rc; /* 0, or errno of the first error, after which nothing more is written */
};

/** Make the path of the directory, or of @p below in it. */
static void
path_of(const struct control *c, char *path, const char *below)
{
	snprintf(path, PATH_BYTES, "%s.sys%s%s", c->s.conf->socket, below[0] != '\0' ? "/" : "", below);
}

/** Make the path of @p below, and create the directories above it. @return 0 or an errno value. */
static int
make_folders(const struct control *c, char *path, const char *below)
{
	path_of(c, path, below);
	for (char *slash = strchr(path + strlen(c->s.conf->socket), '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		int rc;

		*slash = '\0';
		rc = mkdir(path, FOLDER_MODE) == 0 ? chmod(path, FOLDER_MODE) : errno == EEXIST ? 0 : -1;
		*slash = '/';
		if (rc != 0)
			return errno;
	}
	return 0;
}

/** Write a file atomically: a program that reads it meanwhile sees the old content. @return 0 or an errno value. */
static int
write_file(const struct control *c, const char *below, const char *text)
{
	char path[PATH_BYTES], new[PATH_BYTES + 1];
	ssize_t n = (ssize_t)strlen(text);
	int fd, rc;

	rc = make_folders(c, path, below);
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

static void put(struct tree *t, const struct net_port *p, const char *what, int number, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/** Write file @p what of port @p p, such as "ports/1/gids/", with @p number appended if that isn't negative. */
static void
put(struct tree *t, const struct net_port *p, const char *what, int number, const char *fmt, ...)
{
	char text[TEXT_BYTES], below[BELOW_BYTES], digits[16] = "";
	va_list ap;

	if (number >= 0)
		snprintf(digits, sizeof(digits), "%d", number);
	snprintf(below, sizeof(below), "sys/class/infiniband/%s/%s%s", p->conf.name, what, digits);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (t->rc == 0)
		t->rc = write_file(t->c, below, text);
}

/** Four groups of a GUID, or eight of a GID, in the kernel's format. */
static void
groups(char *text, const uint8_t *bytes, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sprintf(text + 5 * i, "%02x%02x%s", bytes[2 * i], bytes[2 * i + 1], i + 1 < n ? ":" : "");
}

/** Remove file @p what with @p number, if there is one. */
static void
take_away(const struct tree *t, const struct net_port *p, const char *what, int number)
{
	char below[BELOW_BYTES], path[PATH_BYTES];

	snprintf(below, sizeof(below), "sys/class/infiniband/%s/%s%d", p->conf.name, what, number);
	path_of(t->c, path, below);
	unlink(path);
}

static void
write_gid(struct tree *t, const struct net_port *p, int i)
{
	static const struct gid none;
	const struct gid *g = net_gid(p, (unsigned int)i);
	char gid[8 * 5 + 1];

	groups(gid, g != NULL ? g->raw : none.raw, 8);
	put(t, p, "ports/1/gids/", i, "%s\n", gid);
	/* As in sysfs, where reading the type of an unused entry fails. */
	if (g == NULL) {
		take_away(t, p, "ports/1/gid_attrs/types/", i);
		take_away(t, p, "ports/1/gid_attrs/ndevs/", i);
		return;
	}
	put(t, p, "ports/1/gid_attrs/types/", i, "RoCE v2\n");
	if (p->netdev[0] != '\0')
		put(t, p, "ports/1/gid_attrs/ndevs/", i, "%s\n", p->netdev);
}

static void
write_tables(struct tree *t, const struct net_port *p)
{
	for (int i = 0; i < UROCE_MAX_GIDS; i++)
		write_gid(t, p, i);
	for (int i = 0; i < UROCE_MAX_PKEYS; i++)
		put(t, p, "ports/1/pkeys/", i, "0x%04x\n", p->conf.pkeys[i]);
}

static void
write_link(struct tree *t, const struct net_port *p)
{
	bool up = t->c->link_up[p->index];
	uint32_t mbps = 0;

	net_port_link(p, &mbps);
	/* Virtual ports don't know their speed; ibv_query_port() reports the same. */
	if (mbps == 0 || mbps == UINT32_MAX)
		mbps = 10000;
	put(t, p, "ports/1/state", -1, "%s\n", up ? "4: ACTIVE" : "1: DOWN");
	put(t, p, "ports/1/phys_state", -1, "%s\n", up ? "5: LinkUp" : "3: Disabled");
	put(t, p, "ports/1/rate", -1, "%g Gb/sec\n", mbps / 1000.0);
}

static void
write_port(struct tree *t, const struct net_port *p)
{
	char below[BELOW_BYTES], path[PATH_BYTES], guid[4 * 5 + 1];
	uint64_t v = rte_cpu_to_be_64(control_port_guid(p));

	groups(guid, (const uint8_t *)&v, 4);
	put(t, p, "node_type", -1, "1: CA\n");
	put(t, p, "node_guid", -1, "%s\n", guid);
	put(t, p, "fw_ver", -1, "%s\n", UROCE_VERSION);
	put(t, p, "device/numa_node", -1, "%d\n", net_port_is_gone(p) ? -1 : rte_eth_dev_socket_id(p->port_id));
	put(t, p, "ports/1/link_layer", -1, "Ethernet\n");
	put(t, p, "ports/1/lid", -1, "0x0\n");
	write_link(t, p);
	write_tables(t, p);
	/* Programs only check that there is a character device that they may open. */
	snprintf(below, sizeof(below), "dev/infiniband/%s", p->conf.name);
	if (t->rc == 0)
		t->rc = make_folders(t->c, path, below);
	if (t->rc == 0 && symlink("/dev/null", path) != 0)
		t->rc = errno;
}

/** Remove what is in the folder, and the folder. @param depth  Of folders below it at most. */
static int
remove_below(int at, const char *name, unsigned int depth)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;

	if (dir == NULL) {
		int rc = errno;

		if (fd >= 0)
			close(fd);
		return rc;
	}
	while ((d = readdir(dir)) != NULL) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, d->d_name, 0) != 0 && errno == EISDIR && depth > 0)
			remove_below(fd, d->d_name, depth - 1);
	}
	closedir(dir);
	return unlinkat(at, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

int
sysfs_remove_tree(int at, const char *name)
{
	return remove_below(at, name, TREE_DEPTH);
}

/**
 * @return whether a directory of this owner is a daemon's. Others may be able to write to the directory above, so another user's is not removed. But root
 * may take over from a daemon that was an ordinary user from its start: then the directory's owner is that of the daemon's socket.
 */
static bool
is_ours(const struct control *c, uid_t owner)
{
	struct stat st;

	if (owner == geteuid())
		return true;
	return geteuid() == 0 && lstat(c->s.conf->socket, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == owner;
}

/** Remove the directory and all that is in it. */
static void
clear(const struct control *c)
{
	char root[PATH_BYTES];
	struct stat st;

	path_of(c, root, "");
	if (lstat(root, &st) == 0 && S_ISDIR(st.st_mode) && is_ours(c, st.st_uid))
		sysfs_remove_tree(AT_FDCWD, root);
}

/** Give a folder of @p top away. */
static void
give_folder(int top, const char *root, const char *below, uid_t uid, gid_t gid)
{
	int fd = open_beneath(top, below);
	struct stat st;

	/* Only a directory can't be another's file under one more name. */
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))) {
		close(fd);
		errno = ENOTDIR;
		fd = -1;
	}
	/* Without any GID there is none, and it is made when it is needed. */
	if (fd < 0 && errno == ENOENT)
		return;
	if (fd < 0 || fchownat(fd, "", uid, gid, AT_EMPTY_PATH) != 0)
		CTL_LOG(WARNING, "%s/%s can't be given to user %u: %s; it will not follow link and addresses", root, below, (unsigned int)uid,
			strerror(errno));
	if (fd >= 0)
		close(fd);
}

void
sysfs_give(const struct control *c, uid_t uid, gid_t gid)
{
	/* One below the other: whoever has the outer one could put something else in the place of an inner one. */
	static const char *const folders[] = { "ports/1/gids", "ports/1/gid_attrs/types", "ports/1/gid_attrs/ndevs", "ports/1/gid_attrs", "ports/1" };
	char root[PATH_BYTES], below[BELOW_BYTES];
	int top;

	path_of(c, root, "");
	top = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (uint16_t i = 0; top >= 0 && i < c->s.nb_ports; i++) {
		for (unsigned int k = 0; k < sizeof(folders) / sizeof(folders[0]); k++) {
			snprintf(below, sizeof(below), "sys/class/infiniband/%s/%s", c->s.ports[i]->conf.name, folders[k]);
			give_folder(top, root, below, uid, gid);
		}
	}
	if (top >= 0)
		close(top);
}

void
sysfs_remove(struct control *c)
{
	if (c->sysfs)
		clear(c);
	c->sysfs = false;
}

static void
warn(const struct tree *t)
{
	if (t->rc != 0)
		CTL_LOG(WARNING, "%s.sys can't be written: %s; programs that look into /sys/class/infiniband find nothing",
			t->c->s.conf->socket, strerror(t->rc));
}

void
sysfs_write(struct control *c)
{
	struct tree t = { .c = c };
	char root[PATH_BYTES];

	clear(c);
	c->sysfs = true;
	path_of(c, root, "");
	if (mkdir(root, FOLDER_MODE) != 0 || chmod(root, FOLDER_MODE) != 0)
		t.rc = errno;
	for (uint16_t i = 0; i < c->s.nb_ports && t.rc == 0; i++)
		write_port(&t, c->s.ports[i]);
	warn(&t);
}

void
sysfs_write_gids(const struct control *c, uint16_t port, uint32_t indices)
{
	struct tree t = { .c = c };

	for (int i = 0; i < UROCE_MAX_GIDS; i++)
		if (indices >> i & 1)
			write_gid(&t, c->s.ports[port], i);
	warn(&t);
}

void
sysfs_write_link(const struct control *c, uint16_t port)
{
	struct tree t = { .c = c };

	write_link(&t, c->s.ports[port]);
	warn(&t);
}
