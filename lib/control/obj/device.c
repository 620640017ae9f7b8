/* SPDX-License-Identifier: BSD-3-Clause */
/* HELLO and DEVICE_OPEN: identifying the program, and setting up what it shares with the engines. */
#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_common.h>

#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/core/shares_priv.h"
#include "control/memory/mounts_priv.h"
#include "control/memory/shm_priv.h"
#include "control/memory/sigbus_priv.h"
#include "control/obj/obj_device_priv.h"
#include "mem/copier.h"

int
op_hello(struct session *s, struct request *r)
{
	const struct ctl_hello_req *q = &r->req->hello;
	size_t i, n = strnlen(q->program, sizeof(q->program));

	if (s->hello)
		return req_fail(r, EINVAL, "HELLO was sent already");
	if (n == sizeof(q->program))
		return req_fail(r, EINVAL, "the program's name must end within %d bytes", CTL_NAME_BYTES);
	if (closer_pending_of(s->user->uid) >= CLOSER_USER_PENDING)
		return req_fail(r, EMFILE, "%u descriptors of this user can't be closed: their file systems or peers don't answer",
				closer_pending_of(s->user->uid));
	memcpy(s->program, q->program, n + 1);
	for (i = 0; i < n; i++) {
		if (!isprint((unsigned char)s->program[i]))
			s->program[i] = '?';
	}
	session_greeted(s);
	closer_refuse_rights(s->sock.fd, false);
	r->rsp.hello.abi_version = UROCE_ABI_VERSION;
	r->rsp.hello.nb_devices = s->control->s.nb_ports;
	snprintf(r->rsp.hello.version, sizeof(r->rsp.hello.version), "%s", UROCE_VERSION);
	return 0;
}

int
op_memory(struct session *s, struct request *r)
{
	if (s->owner.mem_fd >= 0)
		return req_fail(r, EINVAL, "the memory of this program is known already");
	if (r->nb_fds == 0 || !proc_mem_check(s, r->fds[0], r->nb_fds > 1 ? r->fds[1] : -1, r->req->memory.pid))
		return req_fail(r, EINVAL,
				"the descriptors must be /proc/self/mem, opened O_RDWR, and /proc; uroced must see this program there");
	s->owner.lane = copier_lane_open(r->fds[0], s->user->uid, proc_close);
	if (s->owner.lane == NULL)
		return req_fail(r, ENOMEM, "no memory for the session");
	s->owner.mem_fd = r->fds[0];
	r->fds[0] = -1;
	if (r->nb_fds > 1 && proc_is_root(s->owner.mem_fd, r->fds[1])) {
		proc_close(r->fds[1], s->user->uid);
		r->fds[1] = -1;
	}
	saved_touch(s->control, s->record);
	return 0;
}

/** Distance in bytes between the doorbells of two engines. */
static size_t
db_stride(void)
{
	return (sizeof(struct ring_db) + 4095) / 4096 * 4096;
}

static size_t
doorbells_bytes(const struct session *s)
{
	return db_stride() * s->control->s.nb_engines;
}

/** Map the doorbells, which the program maps too, and have the engines look at them. @return 0 or an errno value. */
static int
map_doorbells(struct session *s)
{
	struct control *c = s->control;
	size_t bytes = doorbells_bytes(s);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, s->db_fd, 0);

	if (p == MAP_FAILED)
		return errno;
	s->db = p;
	s->db_bytes = bytes;
	s->db_sigbus_id = sigbus_add(p, bytes, &s->victim);
	if (s->db_sigbus_id < 0)
		return ENOMEM;
	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		s->engine_sessions[i] = engine_session_add(c->s.engines[i], (void *)(s->db + i * db_stride()),
							   RTE_MIN((uint32_t)RING_DB_SLOTS, c->s.conf->max_qp),
							   s->kick_fds, s->own);
		if (s->engine_sessions[i] == NULL)
			return errno;
	}
	return 0;
}

void
device_close(struct session *s)
{
	struct control *c = s->control;

	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
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
	if (s->db_fd >= 0)
		close(s->db_fd);
	s->db_fd = -1;
	quota_give(s, QUOTA_fd, shm_segments(s->shm));
	shm_destroy(s->shm);
	s->shm = NULL;
	if (s->mem_fd >= 0)
		close(s->mem_fd);
	for (unsigned int i = 0; i < CTL_MAX_KICKS; i++) {
		if (s->kick_fds[i] >= 0)
			close(s->kick_fds[i]);
		s->kick_fds[i] = -1;
	}
	async_close(s);
	quota_give(s, QUOTA_fd, s->device_fds);
	s->device_fds = 0;
	s->mem_fd = -1;
	s->port = NULL;
	s->device_gone = false;
}

static_assert((int)CTL_MAX_KICKS >= (int)ENGINE_CPUS_MAX, "a session has an eventfd for each CPU of an engine");

static unsigned int
nb_kicks(const struct session *s)
{
	return s->control->s.nb_cpus > 0 ? s->control->s.nb_cpus : 1;
}

/** @return descriptors of an open device: the eventfds, doorbells, converted memory, asynchronous events. */
static unsigned int
device_fds(const struct session *s)
{
	return nb_kicks(s) + 3;
}

/** @return false: no descriptors. */
static bool
open_kicks(struct session *s)
{
	for (unsigned int i = 0; i < nb_kicks(s); i++) {
		s->kick_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (s->kick_fds[i] < 0)
			return false;
	}
	return true;
}

/** @return bytes of queues that the session may have; segments of several queues count whole. */
static uint64_t
rings_limit(const struct session *s)
{
	uint32_t mib = s->control->s.conf->session_max_rings;

	return mib != 0 && !s->own ? mib * CONFIG_MIB : UINT64_MAX;
}

int
op_device_open(struct session *s, struct request *r)
{
	struct control *c = s->control;
	uint32_t index = r->req->device_open.index;
	int async_fd = -1, rc;

	if (s->port != NULL)
		return req_fail(r, EINVAL, "this session has a device open already");
	if (index >= c->s.nb_ports)
		return req_fail(r, ENODEV, "no device %u: there are %u", index, c->s.nb_ports);
	if (net_port_is_gone(c->s.ports[index]))
		return req_fail(r, ENODEV, "the device of %s is not there; uroced opens it when it is", c->s.ports[index]->conf.name);
	rc = quota_take(s, QUOTA_fd, device_fds(s), r);
	if (rc != 0)
		return rc;
	s->device_fds = device_fds(s);
	s->mem_fd = shm_memfd("uroce-mr", UINT64_C(1) << SESSION_MEM_SHIFT, 0);
	s->shm = shm_create(rings_limit(s), c->hugepages, &s->victim);
	s->db_fd = shm_memfd("uroce-doorbells", doorbells_bytes(s), 0);
	if (!open_kicks(s) || s->mem_fd < 0 || s->db_fd < 0 || s->shm == NULL || async_open(s, &async_fd) != 0 || map_doorbells(s) != 0) {
		if (async_fd >= 0)
			close(async_fd);
		device_close(s);
		return req_fail(r, ENOMEM, "no memory or no descriptors for the session");
	}
	s->port = c->s.ports[index];
	saved_touch(c, s->record);
	shares_apply(s, c->s.conf);
	r->rsp.device_open = (struct ctl_device_open_rsp){
		.nb_engines = c->s.nb_engines,
		.have_uffd = c->uffd >= 0 && !s->own,
		.num_comp_vectors = SESSION_COMP_VECTORS,
		.privileged = c->shared.privileged && !s->own,
		.mem_bytes = UINT64_C(1) << SESSION_MEM_SHIFT,
		.db_stride = db_stride(),
		.nb_kicks = nb_kicks(s),
	};
	for (unsigned int i = 0; i < nb_kicks(s); i++) {
		r->rsp.device_open.kick_cpus[i] = c->s.nb_cpus > 0 ? c->s.cpus[i] : -1;
		req_send_fd(r, s->kick_fds[i], false);
	}
	req_send_fd(r, s->db_fd, false);
	req_send_fd(r, s->mem_fd, false);
	req_send_fd(r, async_fd, true);
	if (r->rsp.device_open.have_uffd)
		req_send_fd(r, c->uffd, false);
	return 0;
}

/* ---- A daemon goes, another one comes ---- */
/** @return true if @p fd is a file of our own kind, whose size nobody can change. */
static bool
is_sealed(int fd, uint64_t bytes)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes && (fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW)) ==
								   (F_SEAL_SHRINK | F_SEAL_GROW);
}

void
device_look(const struct session *s, struct device_parts *p)
{
	memcpy(p->kicks, s->kick_fds, sizeof(p->kicks));
	p->doorbells = s->db_fd;
	p->memory = s->mem_fd;
	p->events = s->async.sock.fd;
}

int
device_restore(struct session *s, struct net_port *port, const struct device_parts *p, struct request *r)
{
	int rc;

	/* From here on they are the session's, which closes them. */
	memcpy(s->kick_fds, p->kicks, sizeof(s->kick_fds));
	s->db_fd = p->doorbells;
	s->mem_fd = p->memory;
	async_take(s, p->events);
	for (unsigned int i = 0; i < nb_kicks(s); i++)
		if (p->kicks[i] < 0)
			return req_fail(r, EINVAL, "its eventfds are missing");
	if (p->events < 0 || !is_sealed(p->doorbells, doorbells_bytes(s)) || !is_sealed(p->memory, UINT64_C(1) << SESSION_MEM_SHIFT))
		return req_fail(r, EINVAL, "its doorbells, memory or events are missing, or are for another number of engines");
	rc = quota_take(s, QUOTA_fd, device_fds(s), r);
	if (rc != 0)
		return rc;
	s->device_fds = device_fds(s);
	s->shm = shm_create(rings_limit(s), s->control->hugepages, &s->victim);
	rc = s->shm != NULL ? map_doorbells(s) : ENOMEM;
	if (rc != 0)
		return req_fail(r, rc, "no memory or no descriptors for the session");
	s->port = port;
	s->device_gone = net_port_is_gone(port);
	shares_apply(s, s->control->s.conf);
	return 0;
}

int
memory_restore(struct session *s, int fd, struct request *r)
{
	if (fd < 0)
		return 0;
	s->owner.mem_fd = fd;
	s->owner.lane = copier_lane_open(fd, s->user->uid, proc_close);
	return s->owner.lane != NULL ? 0 : req_fail(r, ENOMEM, "no memory for the session");
}
