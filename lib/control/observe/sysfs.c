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
	LINK_FILES = 3,
	PATH_BYTES = CONFIG_SOCKET_BYTES + sizeof(".sys/") + BELOW_BYTES, /* of the whole path */
};

static const char DEVICE[] = "/dev/null";

/** The directory that a daemon before has left, while its files are compared with those that should be there. */
struct left {
	int top, folder;         /* the directory, and the folder in it of the latest file; -1: none yet */
	char below[BELOW_BYTES]; /* of that folder */
	uint32_t nb;             /* files that it should have, so far */
	bool useless;            /* something else is there than files with other texts */
};

/** The state while the directory is written. */
struct tree {
	const struct control *c;
	struct left *left; /* or NULL: all files are written */
	int rc;            /* 0, or errno of the first error, after which nothing more is written */
	char below[BELOW_BYTES], text[TEXT_BYTES]; /* of the latest file; "": none yet */
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

static bool
has_text(int folder, const char *name, const char *text)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	size_t bytes = strlen(text);
	char there[TEXT_BYTES];
	bool same;

	if (fd < 0)
		return false;
	same = read(fd, there, sizeof(there)) == (ssize_t)bytes && memcmp(there, text, bytes) == 0;
	close(fd);
	return same;
}

/** Write a file atomically: a program that reads it meanwhile sees the old content. @return 0 or an errno value. */
static int
replace_file(int at, const char *path, const char *text)
{
	ssize_t n = (ssize_t)strlen(text);
	char new[PATH_BYTES + 1];
	int fd, rc;

	snprintf(new, sizeof(new), "%s~", path);
	fd = openat(at, new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return errno;
	rc = write(fd, text, (size_t)n) == n && fchmod(fd, FILE_MODE) == 0 ? 0 : errno;
	close(fd);
	if (rc == 0 && renameat(at, new, at, path) != 0)
		rc = errno;
	if (rc != 0)
		unlinkat(at, new, 0);
	return rc;
}

/** @return 0 or an errno value. */
static int
write_file(const struct control *c, const char *below, const char *text)
{
	char path[PATH_BYTES];
	int rc;

	path_of(c, path, below);
	if (has_text(AT_FDCWD, path, text))
		return 0;
	rc = replace_file(AT_FDCWD, path, text);
	if (rc != ENOENT)
		return rc;
	/* The first one in its folder. */
	rc = make_folders(c, path, below);
	return rc == 0 ? replace_file(AT_FDCWD, path, text) : rc;
}

/* ---- What a daemon before has left ---- */
/** Open the folder of @p below, in which another user may write. @return the name in it, or NULL: there is none. */
static const char *
enter(struct left *l, const char *below)
{
	const char *slash = strrchr(below, '/');
	size_t n = (size_t)(slash - below);

	if (l->folder >= 0 && strncmp(l->below, below, n) == 0 && l->below[n] == '\0')
		return slash + 1;
	if (l->folder >= 0)
		close(l->folder);
	memcpy(l->below, below, n);
	l->below[n] = '\0';
	l->folder = open_beneath(l->top, l->below);
	return l->folder >= 0 ? slash + 1 : NULL;
}

/** Have a file with this text: mostly it is there. */
static void
keep_file(struct left *l, const char *below, const char *text)
{
	const char *name = enter(l, below);

	l->nb++;
	if (name == NULL || (!has_text(l->folder, name, text) && replace_file(l->folder, name, text) != 0))
		l->useless = true;
}

static void
keep_link(struct left *l, const char *below, const char *to)
{
	const char *name = enter(l, below);
	char there[TEXT_BYTES];
	size_t bytes = strlen(to);

	l->nb++;
	if (name == NULL || readlinkat(l->folder, name, there, sizeof(there)) != (ssize_t)bytes || memcmp(there, to, bytes) != 0)
		l->useless = true;
}

/** Count what isn't a folder. @param left  So many are expected. @param depth  Of folders below it at most. @return false: there are more, or it can't be told. */
static bool
count_below(int at, const char *name, unsigned int depth, uint32_t *left)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;
	bool good = true;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (good && (d = readdir(dir)) != NULL) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (d->d_type == DT_DIR)
			good = depth > 0 && count_below(fd, d->d_name, depth - 1, left);
		else
			good = d->d_type != DT_UNKNOWN && (*left)-- > 0;
	}
	closedir(dir);
	return good;
}

/**
 * Most GIDs and P_Keys are unused, and a name more costs less than a file more. Files are replaced, never changed.
 * @return whether @p below is the latest file, which has the same text, under another name.
 */
static bool
link_latest(const struct tree *t, const char *below, const char *text)
{
	char path[PATH_BYTES], latest[PATH_BYTES];

	if (t->below[0] == '\0' || strcmp(text, t->text) != 0)
		return false;
	path_of(t->c, latest, t->below);
	path_of(t->c, path, below);
	return link(latest, path) == 0;
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
	if (t->left != NULL) {
		keep_file(t->left, below, text);
		return;
	}
	if (t->rc != 0 || link_latest(t, below, text))
		return;
	t->rc = write_file(t->c, below, text);
	snprintf(t->below, sizeof(t->below), "%s", below);
	snprintf(t->text, sizeof(t->text), "%s", text);
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

	/* If there is one, it is one too many. */
	if (t->left != NULL)
		return;
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

	if (t->left != NULL) {
		t->left->nb += LINK_FILES;
		return;
	}
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
	if (t->left != NULL) {
		keep_link(t->left, below, DEVICE);
		return;
	}
	if (t->rc == 0)
		t->rc = make_folders(t->c, path, below);
	if (t->rc == 0 && symlink(DEVICE, path) != 0)
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

/**
 * Programs that go on may have waited for long enough: where a daemon before has left the same files, they are only read.
 * @return false: the directory must be made anew.
 */
static bool
keep_tree(const struct control *c)
{
	struct left l = { .folder = -1 };
	struct tree t = { .c = c, .left = &l };
	char root[PATH_BYTES];
	struct stat st;

	path_of(c, root, "");
	l.top = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l.top < 0)
		return false;
	l.useless = fstat(l.top, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & ACCESSPERMS) != FOLDER_MODE;
	for (uint16_t i = 0; i < c->s.nb_ports && !l.useless; i++)
		write_port(&t, c->s.ports[i]);
	if (!l.useless)
		l.useless = !count_below(l.top, ".", TREE_DEPTH, &l.nb) || l.nb != 0;
	if (l.folder >= 0)
		close(l.folder);
	close(l.top);
	return !l.useless;
}

void
sysfs_write(struct control *c)
{
	struct tree t = { .c = c };
	char root[PATH_BYTES];

	c->sysfs = true;
	if (keep_tree(c))
		return;
	clear(c);
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
