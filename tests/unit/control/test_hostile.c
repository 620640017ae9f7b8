/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that would make the daemon wait: descriptors whose flags, locks or closing are in the program's hand. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon.h"

enum { MAX_SESSIONS = 40, MAX_QP = 100, LINGER_SECONDS = 20, PATIENCE_SECONDS = 3, KICKS = 3000 };

/** Memory that changes while the daemon looks at it: at @p at is the file @p mine, or @p others, which we may only read. */
static struct {
	uint8_t *at;
	int mine, others;
	bool before, after; /**< when others is mapped there: when the daemon opens it, and from then on */
} swap;

static void
map_here(int fd, int prot)
{
	if (mmap(swap.at, 4096, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		abort();
}

/** The daemon's call. */
int
openat(int dir, const char *path, int flags, ...)
{
	bool ours = swap.at != NULL && strncmp(path, "map_files/", 10) == 0;
	mode_t mode = 0;
	va_list ap;
	int fd;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (ours)
		map_here(swap.before ? swap.others : swap.mine, swap.before ? PROT_READ : PROT_READ | PROT_WRITE);
	fd = (int)syscall(SYS_openat, dir, path, flags, mode);
	if (ours)
		map_here(swap.after ? swap.others : swap.mine, swap.after ? PROT_READ : PROT_READ | PROT_WRITE);
	return fd;
}

/** The daemon answers others soon. A test that hangs it can't go on: everything later would only hang too. */
static void
assert_answers_soon(void)
{
	struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	int sock = peer_connect();

	assert_int_equal(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	if (peer_hello(sock) != 0) {
		fprintf(stderr, "the daemon doesn't answer within %d s\n", PATIENCE_SECONDS);
		_exit(1);
	}
	close(sock);
}

/** Ask for a QP in another state. */
static void
set_state(int sock, uint32_t handle, enum uroce_qp_state state)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct ctl_rsp r;

	q.qp_modify.handle = handle;
	q.qp_modify.mask = UROCE_QP_STATE;
	if (state == UROCE_QPS_INIT)
		q.qp_modify.mask |= UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS;
	q.qp_modify.attr = (struct uroce_qp_attr){ .qp_state = state, .port_num = 1 };
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
}

/** A program that reads no events for a while loses none, as long as there are not too many. */
static void
asynchronous_events_wait_for_their_reader(void **state)
{
	enum { EVENTS = 1500, READ_MS = 2000 };
	struct ctl_req q = peer_req(CTL_SRQ_CREATE);
	struct ctl_cq_create_rsp cq;
	struct ctl_async_event ev;
	uint32_t pd, srq, i;
	struct pollfd fd;
	struct ctl_rsp r;
	struct peer p;
	int out = -1;

	peer_open(&p);
	pd = peer_pd(p.sock);
	cq = peer_cq(&p, 16);
	q.srq_create = (struct ctl_srq_create_req){ .pd = pd, .max_wr = 16, .max_sge = 1 };
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, &out, 1), 0);
	peer_segment(&p, &r.srq_create.seg, out);
	srq = r.srq_create.handle;
	q = peer_req(CTL_QP_CREATE);
	q.qp_create = (struct ctl_qp_create_req){
		.cookie = 77, .type = UROCE_QPT_RC, .pd = pd, .send_cq = cq.handle, .recv_cq = cq.handle, .srq = srq, .cap = { 1, 0, 1, 0, 0 }
	};
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, &out, 1), 0);
	peer_segment(&p, &r.qp_create.seg, out);
	for (i = 0; i < EVENTS; i++) {
		set_state(p.sock, r.qp_create.handle, UROCE_QPS_INIT);
		set_state(p.sock, r.qp_create.handle, UROCE_QPS_ERR);
		set_state(p.sock, r.qp_create.handle, UROCE_QPS_RESET);
	}
	fd = (struct pollfd){ .fd = p.async_fd, .events = POLLIN };
	for (i = 0; i < EVENTS; i++) {
		assert_int_equal(poll(&fd, 1, READ_MS), 1);
		assert_int_equal(read(p.async_fd, &ev, sizeof(ev)), sizeof(ev));
		assert_int_equal(ev.type, UROCE_EVENT_QP_LAST_WQE_REACHED);
		assert_int_equal(ev.cookie, 77);
	}
	assert_int_equal(poll(&fd, 1, 0), 0);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/** Nothing that a program does with its ends of a channel's sockets reaches the daemon: each is used with flags of the call. */
static void
a_program_cant_make_its_channel_block_the_daemon(void **state)
{
	struct ctl_req q = peer_req(CTL_CHANNEL_CREATE);
	struct ctl_comp_event ev = { 0 };
	int fds[2], first = 0, one = 1;
	uint32_t channel;
	struct ctl_rsp r;
	struct peer p;

	peer_open(&p);
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, fds, 2), 0);
	channel = r.handle.handle;
	/* What the program sends there, the daemon need not receive or close. */
	assert_int_equal(send(fds[0], &ev, sizeof(ev), MSG_DONTWAIT | MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
	assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &one, sizeof(one)), 0);
	while (send(fds[1], &ev, sizeof(ev), MSG_DONTWAIT) == (ssize_t)sizeof(ev))
		first++;
	assert_int_equal(errno, EAGAIN);
	q = peer_req(CTL_CQ_CREATE);
	q.cq_create = (struct ctl_cq_create_req){ .cqe = 10, .has_channel = 1, .channel = channel };
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, &one, 1), 0);
	peer_segment(&p, &r.cq_create.seg, one);
	/* It is in use. */
	assert_int_equal(peer_handle(p.sock, CTL_CHANNEL_DESTROY, channel), EBUSY);
	assert_int_equal(peer_handle(p.sock, CTL_CQ_DESTROY, r.cq_create.handle), 0);
	assert_int_equal(peer_handle(p.sock, CTL_CHANNEL_DESTROY, channel), 0);
	assert_int_equal(peer_handle(p.sock, CTL_CHANNEL_DESTROY, channel), EINVAL);
	close(fds[0]);
	close(fds[1]);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/** Send two descriptors as this program's memory. @return the status of that. */
static int
hello_with(int mem, int proc)
{
	struct ctl_req q = peer_req(CTL_HELLO);
	int fds[] = { mem, proc }, sock = peer_connect(), rc;
	struct ctl_rsp r;

	q.hello.abi_version = UROCE_ABI_VERSION;
	rc = peer_call(sock, &q, NULL, 0, &r, NULL, 0);
	q = peer_req(CTL_MEMORY);
	q.memory.pid = (uint32_t)getpid();
	if (rc == 0)
		rc = peer_call(sock, &q, fds, 2, &r, NULL, 0);
	close(sock);
	return rc;
}

static int
open_below(const char *folder, const char *name, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0) {
		perror(path);
		_exit(2);
	}
	return fd;
}

/** A file of procfs whose writing has effects with the writer's rights. */
#define DANGEROUS "/proc/sys/kernel/ns_last_pid"

/** In a mount namespace of its own: @p folder has a file that ends in "1/mem", and a procfs. @return what was wrong, or 0. */
static int
pretend(const char *folder)
{
	int own = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), root;
	char path[128], pid[32];

	snprintf(path, sizeof(path), "%s/proc", folder);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("proc", path, "proc", 0, NULL) != 0)
		return 77;
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/1/mem", folder);
	if (mount(DANGEROUS, path, NULL, MS_BIND, NULL) != 0)
		return 77;
	/* Another file, in our procfs and in that one; in a folder that isn't procfs's root. */
	if (hello_with(open_below(folder, "1/mem", O_RDWR), own) != EINVAL)
		return 3;
	if (hello_with(open_below(folder, "1/mem", O_RDWR), dir) != EINVAL)
		return 4;
	/* What a container has is right. */
	snprintf(pid, sizeof(pid), "proc/%d/mem", (int)getpid());
	if (hello_with(open_below(folder, pid, O_RDWR), root) != 0)
		return 5;
	if (hello_with(open_below(folder, pid, O_RDWR), own) != EINVAL || hello_with(open_below(folder, pid, O_RDONLY), root) != EINVAL ||
	    hello_with(open_below(folder, pid, O_PATH), root) != EINVAL)
		return 6;
	/* But not another file there under its name. */
	snprintf(path, sizeof(path), "%s/%s", folder, pid);
	if (mount(DANGEROUS, path, NULL, MS_BIND, NULL) != 0)
		return 77;
	if (hello_with(open_below(folder, pid, O_RDWR), root) != EINVAL)
		return 7;
	snprintf(path, sizeof(path), "%s/proc/sys/kernel/ns_last_pid", folder);
	return hello_with(open(path, O_RDWR | O_CLOEXEC), root) == EINVAL ? 0 : 8;
}

static void
only_memory_of_a_process_is_taken_for_it(void **state)
{
	char folder[] = "/tmp/uroce-mem-XXXXXX", path[64];
	int status = 0;
	pid_t child;

	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/proc", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/1", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/1/mem", folder);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	child = fork();
	if (child == 0)
		_exit(pretend(folder));
	assert_int_equal(waitpid(child, &status, 0), child);
	unlink(path);
	snprintf(path, sizeof(path), "%s/1", folder);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/proc", folder);
	rmdir(path);
	rmdir(folder);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(daemon_wait_empty());
}

static _Atomic bool stealing;

/** Take the wake-ups away before the daemon reads them. */
static void *
steal(void *arg)
{
	int fd = *(int *)arg;
	uint64_t n;

	while (atomic_load(&stealing)) {
		if (read(fd, &n, sizeof(n)) < 0)
			break;
	}
	return NULL;
}

static void
a_program_cant_make_its_doorbell_block_the_daemon(void **state)
{
	uint64_t one = 1;
	pthread_t thread;
	struct peer p;
	int i;

	peer_open(&p);
	/* The flags of an open file are common to all who have it. */
	assert_int_equal(fcntl(p.kick_fd, F_SETFL, 0), 0);
	atomic_store(&stealing, true);
	assert_int_equal(pthread_create(&thread, NULL, steal, &p.kick_fd), 0);
	for (i = 0; i < KICKS; i++) {
		assert_int_equal(write(p.kick_fd, &one, sizeof(one)), sizeof(one));
		assert_answers_soon();
	}
	atomic_store(&stealing, false);
	assert_int_equal(write(p.kick_fd, &one, sizeof(one)), sizeof(one));
	/* The thief may have been quicker than the flag. */
	while (pthread_tryjoin_np(thread, NULL) != 0) {
		assert_int_equal(write(p.kick_fd, &one, sizeof(one)), sizeof(one));
		usleep(1000);
	}
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/** A connection with bytes under way that nobody takes, whose last close() waits for LINGER_SECONDS. */
static int
lingering_socket(int *listener, int *other)
{
	struct linger linger = { .l_onoff = 1, .l_linger = LINGER_SECONDS };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static char junk[1 << 16];
	socklen_t len = sizeof(sa);
	int fd, small = 1;

	*listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(*listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	assert_int_equal(bind(*listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(*listener, 1), 0);
	assert_int_equal(getsockname(*listener, (struct sockaddr *)&sa, &len), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	*other = accept4(*listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*other >= 0);
	while (send(fd, junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

/** @return the status of the registration of the page at swap.at, to be written. */
static int
register_page(struct peer *p, uint32_t pd)
{
	struct {
		struct ctl_req q;
		struct ctl_seg seg;
	} m = { .q = peer_req(CTL_MR_REG) };
	uint64_t va = (uintptr_t)swap.at;
	struct ctl_rsp r;

	m.q.mr_reg = (struct ctl_mr_reg_req){
		.pd = pd, .access = UROCE_ACCESS_LOCAL_WRITE, .addr = va, .length = 4096, .nb_segs = 1, .nb_in_msg = 1
	};
	m.seg = (struct ctl_seg){ .va = va, .length = 4096, .kind = CTL_SEG_SHARED, .map_start = va, .map_end = va + 4096 };
	assert_int_equal(peer_send(p->sock, &m, sizeof(m), NULL, 0), 0);
	assert_true(peer_recv(p->sock, &r, NULL, 0));
	return r.status;
}

/* What the daemon opens, and what it knows of the program's rights, must be of the same file. */
static void
a_mapping_that_changes_gives_no_right(void **state)
{
	struct peer p;
	char link[32];
	uint32_t pd;
	int fd;

	peer_open(&p);
	if (!p.dev.privileged) {
		peer_close(&p);
		skip();
	}
	pd = peer_pd(p.sock);
	swap.mine = memfd_create("mine", MFD_CLOEXEC);
	fd = memfd_create("others", MFD_CLOEXEC);
	assert_int_equal(ftruncate(swap.mine, 4096), 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	swap.others = open(link, O_RDONLY | O_CLOEXEC);
	/* In the middle of another mapping, so that it is not merged with its neighbours. */
	swap.at = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(swap.at, MAP_FAILED);
	swap.at += 4096;
	map_here(swap.mine, PROT_READ | PROT_WRITE);
	assert_int_equal(register_page(&p, pd), 0);
	swap.before = true;
	assert_int_equal(register_page(&p, pd), EOPNOTSUPP);
	swap.after = true;
	assert_int_equal(register_page(&p, pd), EFAULT);
	swap.before = false;
	assert_int_equal(register_page(&p, pd), EOPNOTSUPP);
	swap.after = false;
	assert_int_equal(register_page(&p, pd), 0);
	munmap(swap.at - 4096, 3 * 4096);
	swap.at = NULL;
	close(swap.mine);
	close(swap.others);
	close(fd);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

void __wrap_closer_close(int fd, uid_t uid);
void __real_closer_close(int fd, uid_t uid);
static _Atomic unsigned int left_to_closer;

void
__wrap_closer_close(int fd, uid_t uid)
{
	left_to_closer++;
	__real_closer_close(fd, uid);
}

/* Or many that end at the same moment would keep their user from beginning another one. */
static void
only_descriptors_that_may_close_slowly_are_left_to_others(void **state)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), proc = open("/proc", O_PATH | O_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
	int mounts = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC);
	struct peer p;

	assert_true(daemon_wait_empty());
	left_to_closer = 0;
	for (unsigned int i = 0; i < 3; i++) {
		peer_open(&p);
		peer_close(&p);
		assert_true(daemon_wait_empty());
	}
	assert_int_equal(hello_with(mem, proc), 0);
	assert_true(daemon_wait_empty());
	assert_int_equal(left_to_closer, 0);
	/* The second one isn't looked at where the first says enough. */
	assert_int_equal(hello_with(mem, other), 0);
	assert_true(daemon_wait_empty());
	assert_int_equal(left_to_closer, 1);
	/* In the same procfs, but with its last descriptor a mount namespace may end. */
	assert_int_equal(hello_with(mem, mounts), 0);
	assert_true(daemon_wait_empty());
	assert_int_equal(left_to_closer, 2);
	assert_int_equal(hello_with(other, proc), EINVAL);
	assert_true(daemon_wait_empty());
	assert_int_equal(left_to_closer, 4);
	close(mounts);
	close(mem);
	close(proc);
	close(other);
}

static void
a_descriptor_that_closes_slowly_keeps_nobody_waiting(void **state)
{
	struct ctl_req q = peer_req(CTL_DEVICE_GET);
	int sock = peer_connect(), listener, other, fd;

	fd = lingering_socket(&listener, &other);
	/* Before HELLO the kernel refuses it, if it can. */
	if (peer_send(sock, &q, sizeof(q), &fd, 1) != EPERM)
		skip();
	assert_int_equal(peer_hello(sock), 0);
	assert_int_equal(peer_send(sock, &q, sizeof(q), &fd, 1), 0);
	close(fd);
	assert_answers_soon();
	close(sock);
	close(other);
	close(listener);
}

static void
too_many_slow_descriptors_keep_nobody_waiting(void **state)
{
	struct ctl_req q = peer_req(CTL_DEVICE_GET);
	int sock = peer_connect(), listener, other, fd, fds[6];
	unsigned int i;

	assert_int_equal(peer_hello(sock), 0);
	/* Those that don't fit are the kernel's to close, on our thread. */
	fd = lingering_socket(&listener, &other);
	for (i = 0; i < 5; i++)
		fds[i] = sock;
	fds[5] = fd;
	assert_int_equal(peer_send(sock, &q, sizeof(q), fds, 6), 0);
	close(fd);
	assert_answers_soon();
	close(sock);
	close(other);
	close(listener);
}

static void
slow_descriptors_in_requests_never_read_keep_nobody_waiting(void **state)
{
	struct ctl_req q = peer_req(CTL_PD_ALLOC);
	static const uint8_t nobody[16] = { [10] = 0xff, 0xff, 198, 18, 0, 77 };
	int listener, other, fd;
	struct ctl_rsp r;
	struct peer p;

	peer_open(&p);
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	/* While this waits for an answer to ARP, nothing else of the session is read. */
	q = peer_req(CTL_AH_CREATE);
	q.ah_create.pd = r.handle.handle;
	q.ah_create.attr = (struct uroce_ah_attr){ .is_global = 1, .port_num = 1, .sgid_index = 1 };
	memcpy(q.ah_create.attr.dgid, nobody, sizeof(nobody));
	assert_int_equal(peer_send(p.sock, &q, sizeof(q), NULL, 0), 0);
	usleep(50000);
	fd = lingering_socket(&listener, &other);
	assert_int_equal(peer_send(p.sock, "", 0, NULL, 0), 0);
	assert_int_equal(peer_send(p.sock, &q, sizeof(q), &fd, 1), 0);
	close(fd);
	peer_close(&p);
	usleep(50000);
	assert_answers_soon();
	close(other);
	close(listener);
	assert_true(daemon_wait_empty());
}

/** Whoever opens a file with a lease waits until its holder lets go. */
static void
a_lease_on_shared_memory_keeps_nobody_waiting(void **state)
{
	static uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)];
	struct ctl_req *q = (void *)buf, pd = peer_req(CTL_PD_ALLOC);
	struct ctl_seg *seg = (void *)(buf + CTL_REQ_BYTES);
	char path[64];
	struct ctl_rsp r;
	struct peer p;
	uint8_t *m;
	int fd;

	peer_open(&p);
	assert_int_equal(peer_call(p.sock, &pd, NULL, 0, &r, NULL, 0), 0);
	snprintf(path, sizeof(path), "/dev/shm/uroce-test-%d", (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(fd, 4096), 0);
	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(m, MAP_FAILED);
	if (!p.dev.privileged || fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
		close(fd);
		munmap(m, 4096);
		peer_close(&p);
		skip();
	}
	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){ .pd = r.handle.handle,
					     .access = UROCE_ACCESS_LOCAL_WRITE,
					     .addr = (uintptr_t)m,
					     .length = 4096,
					     .iova = (uintptr_t)m,
					     .nb_segs = 1,
					     .nb_in_msg = 1 };
	*seg = (struct ctl_seg){ .va = (uintptr_t)m,
				 .length = 4096,
				 .map_start = (uintptr_t)m,
				 .map_end = (uintptr_t)m + 4096,
				 .kind = CTL_SEG_SHARED };
	assert_int_equal(peer_send(p.sock, buf, sizeof(buf), NULL, 0), 0);
	assert_answers_soon();
	assert_true(peer_recv(p.sock, &r, NULL, 0));
	assert_int_equal(r.status, EOPNOTSUPP);
	close(fd);
	munmap(m, 4096);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

/** Without descriptors the daemon says so, and doesn't spin for somebody whom it can't take in. */
static void
without_descriptors_the_daemon_refuses_and_rests(void **state)
{
	int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), fds[256], i, n = 0;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	struct rlimit before, few;
	struct ctl_rsp r;

	assert_true(daemon_wait_empty());
	assert_int_equal(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", daemon_socket());
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 256;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (n < 256 && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	assert_true(n < 256);
	assert_int_equal(connect(client, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_true(peer_recv(client, &r, NULL, 0));
	assert_int_equal(r.status, EMFILE);
	assert_non_null(strstr(r.message, "descriptors"));
	for (i = 0; i < n; i++)
		close(fds[i]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	close(client);
	assert_answers_soon();
}

static void
ignore_sigio(void)
{
	/* What breaks a lease is told to its holder. */
	signal(SIGIO, SIG_IGN);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asynchronous_events_wait_for_their_reader),
		cmocka_unit_test(a_program_cant_make_its_channel_block_the_daemon),
		cmocka_unit_test(only_memory_of_a_process_is_taken_for_it),
		cmocka_unit_test(a_mapping_that_changes_gives_no_right),
		cmocka_unit_test(a_program_cant_make_its_doorbell_block_the_daemon),
		cmocka_unit_test(a_lease_on_shared_memory_keeps_nobody_waiting),
		cmocka_unit_test(only_descriptors_that_may_close_slowly_are_left_to_others),
		cmocka_unit_test(a_descriptor_that_closes_slowly_keeps_nobody_waiting),
		cmocka_unit_test(too_many_slow_descriptors_keep_nobody_waiting),
		cmocka_unit_test(slow_descriptors_in_requests_never_read_keep_nobody_waiting),
		cmocka_unit_test(without_descriptors_the_daemon_refuses_and_rests),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return DAEMON_TESTS(tests, MAX_SESSIONS, MAX_QP, ignore_sigio);
}
