/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: one per connection; how they begin, what they have, and how everything of theirs goes away. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>
#include <rte_common.h>

#include "control/core/closer.h"
#include "control/cma/cma.h"
#include "control/core/control_priv.h"
#include "control/core/quota.h"
#include "control/memory/sigbus.h"

static const struct {
	const char *name;
	const char *limit; /* the key that sets it */
} types[OBJ_TYPES] = {
	[OBJ_PD] = { "PD", "max_pd" },    [OBJ_MR] = { "MR", "max_mr" }, [OBJ_CQ] = { "CQ", "max_cq" },
	[OBJ_MW] = { "MW", "max_mr" },    [OBJ_XRCD] = { "XRC domain", "max_pd" },
	[OBJ_SRQ] = { "SRQ", "max_srq" }, [OBJ_QP] = { "QP", "max_qp" }, [OBJ_AH] = { "AH", "max_ah" },
	[OBJ_CM_ID] = { "CM id", "max_cm_id" },
	[OBJ_CM_GROUP] = { "CM group", "max_cm_id" },
};

const char *
obj_name(enum obj_type type)
{
	return types[type].name;
}

void *
obj_new(struct session *s, enum obj_type type, size_t bytes, struct request *r, int *rc)
{
	struct control *c = s->control;
	struct obj *o;

	if (c->count[type] >= c->limit[type]) {
		*rc = req_fail(r, ENOMEM, "uroced has %u %ss already; raise daemon.%s", c->count[type],
			       types[type].name, types[type].limit);
		return NULL;
	}
	*rc = quota_object(s, type, r);
	if (*rc != 0)
		return NULL;
	o = calloc(1, bytes);
	if (o != NULL)
		o->handle = handles_add(&s->tab[type], o);
	if (o == NULL || o->handle == HANDLE_NONE) {
		free(o);
		*rc = req_fail(r, ENOMEM, "no memory for the %s", types[type].name);
		return NULL;
	}
	c->count[type]++;
	s->user->count[type]++;
	return o;
}

void
obj_free(struct session *s, enum obj_type type, struct obj *o)
{
	handles_remove(&s->tab[type], o->handle);
	s->control->count[type]--;
	s->user->count[type]--;
	free(o);
}

void *
obj_get(struct session *s, enum obj_type type, uint32_t handle, struct request *r)
{
	void *o = handles_get(&s->tab[type], handle);

	if (o == NULL)
		req_fail(r, EINVAL, "%#x is no handle of a %s of this session", handle, types[type].name);
	return o;
}

void *
session_owner(const struct session *s)
{
	return (void *)(uintptr_t)s->id;
}

struct session *
session_find(struct control *c, uint64_t id)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
	{
		if (s->id == id)
			return s;
	}
	return NULL;
}

struct ctl_area
area_of(const struct shm_block *b, uint64_t offset, uint64_t bytes)
{
	return (struct ctl_area){ .segment = b->segment, .offset = b->offset + offset, .length = bytes };
}

void
announce(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg)
{
	uint64_t bytes;
	int fd = shm_announce(s->shm, b, &bytes);

	if (fd < 0)
		return;
	seg->segment_bytes = bytes;
	seg->segment = b->segment;
	req_send_fd(r, fd, true);
}

uint32_t
order_of(uint32_t n)
{
	uint32_t order = 0;

	while (order < 31 && (UINT32_C(1) << order) < n)
		order++;
	return order;
}

struct session *
session_create(struct control *c, int fd)
{
	struct session *s = calloc(1, sizeof(*s));
	struct ucred cred;
	socklen_t len = sizeof(cred);
	char path[32];
	int i;

	if (s == NULL)
		return NULL;
	s->control = c;
	s->sock.fd = fd;
	s->id = ++c->next_session;
	s->kick.fd = s->async_fd = s->proc_fd = s->mem_fd = s->owner.mem_fd = s->db_sigbus_id = -1;
	for (i = 0; i < OBJ_TYPES; i++)
		handles_init(&s->tab[i]);
	for (i = 0; i < UROCE_MAX_ENGINES; i++)
		handles_init(&s->db_slots[i]);
	LIST_INIT(&s->windows);
	snprintf(s->program, sizeof(s->program), "?");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
		s->pid = cred.pid;
		s->uid = cred.uid;
		/* The folder stays bound to this process, even if its number is used again. */
		snprintf(path, sizeof(path), "/proc/%d", (int)cred.pid);
		s->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	s->user = quota_enter(c, s->uid);
	if (s->user == NULL) {
		if (s->proc_fd >= 0)
			close(s->proc_fd);
		free(s);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&c->sessions, s, link);
	c->nb_sessions++;
	return s;
}

/** @return true if @p fd is some process's /proc/PID/mem, opened for reading and writing. */
static bool
is_proc_mem(int fd)
{
	char link[32], target[PATH_MAX], *p;
	struct statfs fs;
	ssize_t n;
	int flags;

	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) != O_RDWR)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	/* From another mount namespace the path may lack its beginning, but procfs has no other files that end so. */
	p = strrchr(target, '/');
	if (p == NULL || strcmp(p, "/mem") != 0 || p == target || !isdigit((unsigned char)p[-1]))
		return false;
	while (p > target && isdigit((unsigned char)p[-1]))
		p--;
	/* Last, since a file system of the program's own may take its time to answer. */
	return p > target && p[-1] == '/' && fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

int
op_hello(struct session *s, struct request *r)
{
	const struct ctl_hello_req *q = &r->req->hello;
	size_t i, n = strnlen(q->program, sizeof(q->program));

	if (s->hello)
		return req_fail(r, EINVAL, "HELLO was said already");
	if (n == sizeof(q->program))
		return req_fail(r, EINVAL, "the program's name must end within %d bytes", CTL_NAME_BYTES);
	if (r->nb_fds == 1) {
		if (!is_proc_mem(r->fds[0]))
			return req_fail(r, EINVAL, "the descriptor must be /proc/self/mem, opened O_RDWR");
		s->owner.mem_fd = r->fds[0];
		r->fds[0] = -1;
	}
	memcpy(s->program, q->program, n + 1);
	for (i = 0; i < n; i++) {
		if (!isprint((unsigned char)s->program[i]))
			s->program[i] = '?';
	}
	s->hello = true;
	r->rsp.hello.abi_version = UROCE_ABI_VERSION;
	r->rsp.hello.nb_devices = s->control->s.nb_ports;
	snprintf(r->rsp.hello.version, sizeof(r->rsp.hello.version), "%s", UROCE_VERSION);
	return 0;
}

/** Bytes from one engine's doorbells to the next's. */
static size_t
db_stride(void)
{
	return (sizeof(struct ring_db) + 4095) / 4096 * 4096;
}

/** Make a sealed memfd of @p bytes. @return its descriptor or -1 with errno set. */
static int
sealed_memfd(const char *name, uint64_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;

	if (fd < 0)
		return -1;
	rc = ftruncate(fd, (off_t)bytes) != 0 ? errno : shm_seal(fd);
	if (rc == 0)
		return fd;
	close(fd);
	errno = rc;
	return -1;
}

/** Doorbells: mapped by us and by the program. @return the descriptor, or -1 with errno set. */
static int
open_doorbells(struct session *s)
{
	struct control *c = s->control;
	size_t bytes = db_stride() * c->s.nb_engines;
	int fd = sealed_memfd("uroce-doorbells", bytes), rc = ENOMEM;
	unsigned int i;
	void *p;

	if (fd < 0)
		return -1;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED) {
		rc = errno;
		goto fail;
	}
	s->db = p;
	s->db_bytes = bytes;
	s->db_sigbus_id = sigbus_add(p, bytes, &s->victim);
	if (s->db_sigbus_id < 0)
		goto fail;
	for (i = 0; i < c->s.nb_engines; i++) {
		s->engine_sessions[i] = engine_session_add(c->s.engines[i], (void *)(s->db + i * db_stride()),
							   RTE_MIN((uint32_t)RING_DB_SLOTS, c->s.conf->max_qp),
							   s->own);
		if (s->engine_sessions[i] == NULL) {
			rc = errno;
			goto fail;
		}
	}
	return fd;
fail:
	close(fd);
	errno = rc;
	return -1;
}

/** Undo open_doorbells() and the rest of DEVICE_OPEN, however far it came. */
static void
close_device(struct session *s)
{
	struct control *c = s->control;
	unsigned int i;

	for (i = 0; i < c->s.nb_engines; i++) {
		if (s->engine_sessions[i] != NULL)
			engine_session_remove(c->s.engines[i], s->engine_sessions[i]);
		s->engine_sessions[i] = NULL;
		handles_fini(&s->db_slots[i]);
	}
	if (s->db_sigbus_id >= 0)
		sigbus_remove(s->db_sigbus_id);
	s->db_sigbus_id = -1;
	if (s->db != NULL)
		munmap(s->db, s->db_bytes);
	s->db = NULL;
	shm_destroy(s->shm);
	s->shm = NULL;
	if (s->mem_fd >= 0)
		close(s->mem_fd);
	if (s->kick.fd >= 0) {
		control_unwatch(c, &s->kick);
		close(s->kick.fd);
	}
	if (s->async_fd >= 0)
		close(s->async_fd);
	s->mem_fd = s->kick.fd = s->async_fd = -1;
	s->port = NULL;
}

int
take_event_pipe(struct request *r, int *out)
{
	static const char kind[] = "pipe:[";
	char link[32], target[sizeof(kind)];
	int flags = r->nb_fds == 1 ? fcntl(r->fds[0], F_GETFL) : -1;

	if (flags < 0 || (flags & O_NONBLOCK) == 0 || (flags & O_ACCMODE) == O_RDONLY)
		return EINVAL;
	/* The name, because it can be had without asking a file system, which may be the program's own. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", r->fds[0]);
	if (readlink(link, target, sizeof(target)) < (ssize_t)sizeof(target) ||
	    memcmp(target, kind, sizeof(kind) - 1) != 0)
		return EINVAL;
	*out = open(link, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (*out < 0)
		return errno;
	close(r->fds[0]);
	r->fds[0] = -1;
	return 0;
}

int
op_device_open(struct session *s, struct request *r)
{
	struct control *c = s->control;
	uint32_t index = r->req->device_open.index;
	int db_fd, rc;

	if (s->port != NULL)
		return req_fail(r, EINVAL, "this session has a device open already");
	if (index >= c->s.nb_ports)
		return req_fail(r, ENODEV, "no device %u: there are %u", index, c->s.nb_ports);
	rc = take_event_pipe(r, &s->async_fd);
	if (rc != 0)
		return req_fail(r, rc,
				"the descriptor must be the write end of a pipe, O_NONBLOCK, that uroced may open: %s",
				strerror(rc));
	s->kick.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->mem_fd = sealed_memfd("uroce-mr", UINT64_C(1) << SESSION_MEM_SHIFT);
	s->shm = shm_create((uint64_t)c->s.conf->ring_memory << 20, c->hugepages, &s->victim);
	if (s->kick.fd < 0 || s->mem_fd < 0 || s->shm == NULL || control_watch(c, &s->kick, EPOLLIN | EPOLLET) != 0 ||
	    (db_fd = open_doorbells(s)) < 0) {
		close_device(s);
		return req_fail(r, ENOMEM, "no memory for the session");
	}
	s->port = c->s.ports[index];
	r->rsp.device_open = (struct ctl_device_open_rsp){
		.nb_engines = c->s.nb_engines,
		.have_uffd = c->uffd >= 0 && !s->own,
		.num_comp_vectors = SESSION_COMP_VECTORS,
		.privileged = c->privileged && !s->own,
		.mem_bytes = UINT64_C(1) << SESSION_MEM_SHIFT,
		.db_stride = db_stride(),
	};
	req_send_fd(r, s->kick.fd, false);
	req_send_fd(r, db_fd, true);
	req_send_fd(r, s->mem_fd, false);
	if (r->rsp.device_open.have_uffd)
		req_send_fd(r, c->uffd, false);
	return 0;
}

void
sessions_tell_ended(struct control *c)
{
	uint64_t more = burst_over(&c->ends, control_now_ns());

	if (more > 0)
		CTL_LOG(INFO, "%lu more sessions ended", (unsigned long)more);
}

/** One line per ended session, not more than CONTROL_LOG_BURST a second. */
static void
log_end(struct session *s, const char *why)
{
	struct control *c = s->control;
	uint32_t left = 0;
	int i;

	for (i = 0; i < OBJ_TYPES; i++)
		left += s->tab[i].used;
	if (!s->hello || (why == NULL && left == 0)) {
		CTL_LOG(DEBUG, "session of %s (pid %d) ended", s->program, (int)s->pid);
		return;
	}
	sessions_tell_ended(c);
	if (!burst_take(&c->ends, CONTROL_LOG_BURST))
		return;
	CTL_LOG(INFO, "session of %s (pid %d, uid %u) ended: %s; freed %u QPs, %u CQs, %u SRQs, %u MRs, %u PDs",
		s->program, (int)s->pid, (unsigned int)s->uid, why != NULL ? why : "it went away with objects open",
		s->tab[OBJ_QP].used, s->tab[OBJ_CQ].used, s->tab[OBJ_SRQ].used, s->tab[OBJ_MR].used,
		s->tab[OBJ_PD].used);
}

void
session_close(struct session *s, const char *why)
{
	struct control *c = s->control;

	if (s->closing)
		return;
	s->closing = true;
	log_end(s, why);
	path_cancel(s);
	control_unwatch(c, &s->sock);
	TAILQ_REMOVE(&c->sessions, s, link);
	TAILQ_INSERT_TAIL(&c->closed, s, link);
}

/** Users go before what they use; memory goes last. */
static void
destroy_objects(struct session *s)
{
	struct control *c = s->control;
	uint32_t pos;
	void *o;

	obj_qp_destroy_all(s);
	for (pos = 0; (o = handles_next(&s->tab[OBJ_SRQ], &pos)) != NULL;)
		obj_srq_destroy(s, o);
	if (s->tab[OBJ_CQ].used > 0)
		rcu_wait(c->s.sh.qsbr);
	for (pos = 0; (o = handles_next(&s->tab[OBJ_CQ], &pos)) != NULL;)
		obj_cq_destroy(s, o);
	/* Windows hold their MRs. */
	obj_mw_destroy_all(s);
	obj_mr_destroy_all(s);
	for (pos = 0; (o = handles_next(&s->tab[OBJ_AH], &pos)) != NULL;)
		obj_ah_destroy(s, o);
	for (pos = 0; (o = handles_next(&s->tab[OBJ_XRCD], &pos)) != NULL;)
		obj_xrcd_destroy(s, o);
	for (pos = 0; (o = handles_next(&s->tab[OBJ_PD], &pos)) != NULL;)
		obj_pd_destroy(s, o);
}

static void
session_destroy(struct session *s)
{
	struct control *c = s->control;
	int i;

	cma_session_end(s);
	destroy_objects(s);
	close_device(s);
	closer_close_socket(s->sock.fd);
	if (s->owner.mem_fd >= 0)
		close(s->owner.mem_fd);
	if (s->proc_fd >= 0)
		close(s->proc_fd);
	for (i = 0; i < OBJ_TYPES; i++)
		handles_fini(&s->tab[i]);
	quota_leave(s->user);
	free(s->segs);
	free(s);
	c->nb_sessions--;
}

void
sessions_reap(struct control *c)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&c->closed)) != NULL) {
		TAILQ_REMOVE(&c->closed, s, link);
		session_destroy(s);
	}
}
