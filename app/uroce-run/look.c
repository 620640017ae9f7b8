/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "look.h"

enum {
	SCRIPTS_MAX = 5, /* interpreters that are scripts themselves; Linux follows as many (fs/exec.c) */
	LINE_BYTES = 256 /* of a script's first line: BINPRM_BUF_SIZE */
};

#define LIBRARY "libibverbs.so.1"

static void __attribute__((format(printf, 3, 4)))
found(struct look *l, enum look_reason reason, const char *fmt, ...)
{
	va_list ap;

	l->reason = reason;
	va_start(ap, fmt);
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
	va_end(ap);
}

/* Find a program as execvp() does. @return an open descriptor, or -1. */
static int
open_program(const char *name, char path[PATH_MAX])
{
	const char *folders = getenv("PATH"), *end;
	struct stat st;

	if (strchr(name, '/') != NULL) {
		snprintf(path, PATH_MAX, "%s", name);
		return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	for (folders = folders != NULL ? folders : "/bin:/usr/bin"; folders != NULL; folders = *end != '\0' ? end + 1 : NULL) {
		end = strchrnul(folders, ':');
		if ((size_t)snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - folders), folders, end > folders ? "/" : "", name) >=
		    PATH_MAX)
			continue;
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	return -1;
}

/*
 * Read a script's first line.
 * @return true with its interpreter in @name, which is the program that env(1) would start if the line names env.
 */
static bool
script(int fd, char name[LINE_BYTES])
{
	char line[LINE_BYTES + 1], *word, *rest = line + 2;
	ssize_t n = pread(fd, line, LINE_BYTES, 0);

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(rest, " \t", &rest);
	if (word == NULL)
		return false;
	strcpy(name, word);
	if (strcmp(strrchr(word, '/') != NULL ? strrchr(word, '/') : word, "/env") != 0)
		return true;
	while ((word = strtok_r(rest, " \t", &rest)) != NULL) {
		if (word[0] == '-' || strchr(word, '=') != NULL)
			continue;
		strcpy(name, word);
		break;
	}
	return true;
}

static const char *
machine_name(unsigned int machine, char room[16])
{
	static const struct {
		unsigned int machine;
		const char *name;
	} names[] = {
		{ EM_386, "i386" },	  { EM_X86_64, "x86-64" },	{ EM_ARM, "arm" },     { EM_AARCH64, "arm64" },
		{ EM_PPC64, "ppc64" }, { EM_RISCV, "riscv" }, { EM_S390, "s390" },
	};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].machine == machine)
			return names[i].name;
	snprintf(room, 16, "machine %u", machine);
	return room;
}

/* Our own libraries are for the machine that we are for. */
static bool
own_machine(GElf_Ehdr *own)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	Elf *e = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	bool ok = e != NULL && gelf_getehdr(e, own) != NULL;

	elf_end(e);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Look for libibverbs in one folder of a DT_RPATH. $ORIGIN is the program's folder. */
static bool
has_library(const struct look *l, const char *folder, size_t n)
{
	char path[PATH_MAX * 2], own[PATH_MAX];
	const char *origin = NULL;
	size_t skip = 0;

	for (unsigned int i = 0; i < 2; i++) {
		const char *word = i == 0 ? "$ORIGIN" : "${ORIGIN}";

		if (n >= strlen(word) && strncmp(folder, word, strlen(word)) == 0) {
			if (realpath(l->file, own) == NULL)
				return false;
			*strrchr(own, '/') = '\0';
			origin = own;
			skip = strlen(word);
		}
	}
	snprintf(path, sizeof(path), "%s%.*s/" LIBRARY, origin != NULL ? origin : "", (int)(n - skip), folder + skip);
	return access(path, R_OK) == 0;
}

static void
look_at_rpath(struct look *l, const char *rpath)
{
	const char *end;

	for (; rpath != NULL; rpath = *end != '\0' ? end + 1 : NULL) {
		end = strchrnul(rpath, ':');
		if (end == rpath || !has_library(l, rpath, (size_t)(end - rpath)))
			continue;
		found(l, LOOK_RPATH,
		      "its DT_RPATH leads to the " LIBRARY " in %.*s, and the dynamic linker looks there first; link it with "
		      "-Wl,--enable-new-dtags, or remove the path with `patchelf --remove-rpath'",
		      (int)(end - rpath), rpath);
		return;
	}
}

/* DT_RUNPATH comes after LD_LIBRARY_PATH, and makes the linker ignore a DT_RPATH beside it. */
static void
look_at_dynamic(struct look *l, Elf *e, GElf_Off offset)
{
	const char *rpath = NULL;

	for (Elf_Scn *s = elf_nextscn(e, NULL); s != NULL; s = elf_nextscn(e, s)) {
		Elf_Data *data;
		GElf_Shdr h;
		GElf_Dyn d;

		if (gelf_getshdr(s, &h) == NULL || h.sh_type != SHT_DYNAMIC || h.sh_offset != offset ||
		    (data = elf_getdata(s, NULL)) == NULL)
			continue;
		for (int i = 0; gelf_getdyn(data, i, &d) != NULL && d.d_tag != DT_NULL; i++) {
			if (d.d_tag == DT_RUNPATH)
				return;
			if (d.d_tag == DT_RPATH)
				rpath = elf_strptr(e, h.sh_link, d.d_un.d_val);
		}
	}
	look_at_rpath(l, rpath);
}

static void
look_at_elf(struct look *l, Elf *e, const GElf_Ehdr *h)
{
	GElf_Off dynamic = 0;
	bool linker = false;
	char a[16], b[16];
	GElf_Ehdr own;
	GElf_Phdr p;
	size_t n;

	if (own_machine(&own) && (own.e_machine != h->e_machine || own.e_ident[EI_CLASS] != h->e_ident[EI_CLASS])) {
		found(l, LOOK_MACHINE, "it is for %s, and uroce's libraries are for %s", machine_name(h->e_machine, a),
		      machine_name(own.e_machine, b));
		return;
	}
	if (elf_getphdrnum(e, &n) != 0)
		return;
	for (size_t i = 0; i < n && gelf_getphdr(e, (int)i, &p) != NULL; i++) {
		linker |= p.p_type == PT_INTERP;
		if (p.p_type == PT_DYNAMIC)
			dynamic = p.p_offset;
	}
	if (!linker)
		found(l, LOOK_STATIC, "it is linked statically; link it with the shared " LIBRARY);
	else if (dynamic != 0)
		look_at_dynamic(l, e, dynamic);
}

/* The kernel tells the dynamic linker of a change of rights by AT_SECURE. Who has them already changes nothing. */
static bool
gains_rights(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return false;
	return ((st.st_mode & S_ISUID) && st.st_uid != getuid()) || ((st.st_mode & S_ISGID) && st.st_gid != getgid()) ||
	       (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

/* @return true if the file is a script: look at @next instead. */
static bool
look_at_file(int fd, struct look *l, char next[LINE_BYTES])
{
	GElf_Ehdr h;
	Elf *e;

	if (script(fd, next))
		return true;
	if (gains_rights(fd)) {
		found(l, LOOK_PRIVILEGE,
		      "it gets other rights than its user has (setuid, setgid or file capabilities), and the dynamic linker then "
		      "ignores LD_LIBRARY_PATH; run it as that user");
		return false;
	}
	e = elf_begin(fd, ELF_C_READ, NULL);
	if (e != NULL && elf_kind(e) == ELF_K_ELF && gelf_getehdr(e, &h) != NULL)
		look_at_elf(l, e, &h);
	elf_end(e);
	return false;
}

void
look_at(const char *name, struct look *l)
{
	char next[LINE_BYTES];
	bool again = true;
	struct stat st;
	int fd;

	*l = (struct look){ .reason = LOOK_FINE };
	if (elf_version(EV_CURRENT) == EV_NONE)
		return;
	for (unsigned int i = 0; again && i <= SCRIPTS_MAX; i++) {
		fd = open_program(name, l->file);
		if (fd < 0)
			return;
		again = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && look_at_file(fd, l, next);
		close(fd);
		name = next;
	}
}
