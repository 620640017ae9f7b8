/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread: its start, its loop, accepting programs, its end. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_common.h>

#include "base/slice.h"
#include "base/yield.h"
#include "control/cma/cma_priv.h"
#include "control/cma/gsi_priv.h"
#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/core/settle_priv.h"
#include "control/handover_priv.h"
#include "control/core/subuid_priv.h"
#include "control/loop_priv.h"
#include "control/memory/questions_priv.h"
#include "control/memory/sigbus_priv.h"
#include "control/observe/capture.h"
#include "control/observe/exporter_priv.h"
#include "control/observe/stall_priv.h"
#include "control/observe/telemetry_priv.h"
#include "control/observe/telemetry_socket_priv.h"

enum { EPOLL_BATCH = 64, ACCEPT_BURST = 16 };

/*
 * The thread stays awake for this long after it handled something: the next request often follows soon, and waking up
 * costs more than handling most requests.
 */
#define SPIN_NS UINT64_C(50000)

/**
 * Tell a program why it gets no session. This reply is sent before its HELLO was read.
 * @param why  NULL: the limit is the daemon's, or the daemon has no descriptors left.
 */
static void
refuse(int fd, const struct control *c, const char *why)
{
	struct ctl_rsp rsp = { .magic = CTL_MAGIC, .op = CTL_HELLO, .status = EMFILE };

	if (why != NULL)
		snprintf(rsp.message, sizeof(rsp.message), "%s", why);
	else if (c->nb_sessions >= c->s.conf->max_sessions)
		snprintf(rsp.message, sizeof(rsp.message),
			 "uroced has %u sessions already; raise daemon.max_sessions (at most %d)", c->nb_sessions,
			 UROCE_MAX_SESSIONS);
	else
		snprintf(rsp.message, sizeof(rsp.message),
			 "uroced has no descriptors left; raise its limit (ulimit -n, LimitNOFILE=)");
	send_reply(fd, &rsp, NULL, 0);
}

/** Close the socket of a connection that has no session. */
static void
close_stranger(const struct control *c, int fd)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	closer_close_socket(fd, subuid_owner(c->subuids, cred.uid));
}

static void
refuse_and_close(int fd, const struct control *c)
{
	refuse(fd, c, NULL);
	close_stranger(c, fd);
}

/**
 * accept() that works even if no descriptors are left: a connection that is not accepted would wake epoll again and
 * again.
 * @param no_fds  Set if there were none, so that the connection can only be refused.
 * @return -1: nobody connects.
 */
static int
accept_one(struct control *c, bool *no_fds)
{
	int fd = accept4(c->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	*no_fds = fd < 0 && (errno == EMFILE || errno == ENFILE);
	if (!*no_fds || c->spare_fd < 0)
		return fd;
	close(c->spare_fd);
	return accept4(c->listen.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/** Begin a session, if there is room. @param fd  Its socket; owned by the session, or closed. */
static void
begin_session(struct control *c, int fd, bool own)
{
	struct request r = { 0 };
	struct session *s;

	if (c->nb_sessions >= c->s.conf->max_sessions) {
		refuse_and_close(fd, c);
		return;
	}
	s = session_new(c, fd, own);
	if (s == NULL) {
		CTL_LOG(ERR, "no memory for a session");
		close_stranger(c, fd);
		return;
	}
	if (quota_session(s, &r) != 0) {
		refuse(fd, c, r.message);
		session_close(s, "its user has as much as it may have");
	} else if (dispatch_session(s) != 0) {
		session_close(s, "it can't be watched");
	}
}

static void
on_listen(struct watch *w, uint32_t events)
{
	struct control *c = container_of(w, struct control, listen);
	bool no_fds;
	int fd;

	for (unsigned int i = 0; i < ACCEPT_BURST; i++) {
		fd = accept_one(c, &no_fds);
		if (fd >= 0 && no_fds)
			refuse_and_close(fd, c);
		if (no_fds)
			c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (!no_fds)
			begin_session(c, fd, false);
	}
}

int
control_adopt(struct control *c, int sock)
{
	const uint64_t one = 1;
	int rc = 0;

	pthread_mutex_lock(&c->adopt_lock);
	if (c->nb_adopt < CONTROL_ADOPT_MAX)
		c->adopt[c->nb_adopt++] = sock;
	else
		rc = ENOBUFS;
	pthread_mutex_unlock(&c->adopt_lock);
	if (rc != 0)
		close(sock);
	else if (write(c->wake.fd, &one, sizeof(one)) != sizeof(one))
		return 0; /* the eventfd is full, so the thread is awake already */
	return rc;
}

/** Begin the sessions queued by control_adopt(). */
static void
take_adopted(struct control *c)
{
	int fds[CONTROL_ADOPT_MAX];
	unsigned int i, n;

	pthread_mutex_lock(&c->adopt_lock);
	n = c->nb_adopt;
	memcpy(fds, c->adopt, n * sizeof(fds[0]));
	c->nb_adopt = 0;
	pthread_mutex_unlock(&c->adopt_lock);
	for (i = 0; i < n; i++)
		begin_session(c, fds[i], true);
}

/** Memory of a program went away, control_adopt() has queued a session, or control_stop() was called. */
static void
on_wake(struct watch *w, uint32_t events)
{
	struct control *c = container_of(w, struct control, wake);
	struct session *s, *next;
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) != sizeof(n))
		return;
	take_adopted(c);
	for (s = TAILQ_FIRST(&c->sessions); s != NULL; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->victim)
			session_close(s, "it took away memory that it had registered");
	}
}

static void
on_signal(struct watch *w, uint32_t events)
{
	struct control *c = container_of(w, struct control, signals);
	struct signalfd_siginfo info;

	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		control_reload(c);
		if (c->s.hangup != NULL)
			c->s.hangup(c->s.arg);
		return;
	}
	CTL_LOG(INFO, "signal %u, shutting down", info.ssi_signo);
	atomic_store_explicit(&c->stop, true, memory_order_release);
}

uint32_t
control_turn(struct control *c, int max_ms)
{
	struct epoll_event ev[EPOLL_BATCH];
	struct watch *w;
	int i, n, due_ms;

	control_lock(c);
	due_ms = RTE_MIN(events_poll(c), settle_poll(c));
	/* Sessions whose end didn't fit into the last turn. */
	if (!TAILQ_EMPTY(&c->closed))
		due_ms = 0;
	control_unlock(c);
	n = epoll_wait(c->epfd, ev, EPOLL_BATCH, RTE_MIN(due_ms, max_ms));
	control_lock(c);
	c->turn_ns = control_now_ns();
	serving_turn(&c->serving, "other work", c->turn_ns);
	c->turns++;
	for (i = 0; i < n; i++) {
		w = ev[i].data.ptr;
		w->fn(w, ev[i].events);
	}
	sessions_reap(c, false);
	saving_turn(c);
	serving_turn(&c->serving, NULL, 0);
	control_unlock(c);
	return n > 0 ? (uint32_t)n : 0;
}

/** Programs of the daemon before are served again. */
static void
end_gap(struct control *c)
{
	struct taken_over *t = &c->taken_over;

	if (t->held_ns == 0)
		return;
	t->gap_ns = control_now_ns() - t->held_ns;
	t->held_ns = 0;
	CTL_LOG(INFO, "took over %u sessions with %u QPs, which had to wait for %.0f ms; %u sessions ended", t->sessions, t->qps,
		(double)t->gap_ns / 1e6, t->refused);
}

void
control_run(struct control *c)
{
	uint64_t spin_until_ns = 0, slice = slice_set(SLICE_SHORT_NS);

	end_gap(c);

	while (!atomic_load_explicit(&c->stop, memory_order_acquire)) {
		bool spins = control_now_ns() < spin_until_ns;

		if (control_turn(c, spins ? 0 : INT_MAX) > 0)
			spin_until_ns = control_now_ns() + SPIN_NS;
		else if (spins && !yield_core())
			spin_until_ns = 0;
	}
	slice_set(slice);
	atomic_store_explicit(&c->stop, false, memory_order_release);
}

void
control_stop(struct control *c)
{
	uint64_t one = 1;

	atomic_store_explicit(&c->stop, true, memory_order_release);
	if (write(c->wake.fd, &one, sizeof(one)) != sizeof(one))
		return; /* the eventfd is full, so the thread is awake already */
}

/** @return true if the system lets every program make a userfaultfd that also stops the kernel's accesses. */
static bool
programs_have_userfaultfd(void)
{
	FILE *f = fopen("/proc/sys/vm/unprivileged_userfaultfd", "re");
	int value = 0;

	if (f == NULL)
		return false;
	if (fscanf(f, "%d", &value) != 1)
		value = 0;
	fclose(f);
	return value == 1;
}

/** @return true if a hugepage of 2 MiB is available now. */
static bool
probe_hugepages(void)
{
	void *p = mmap(NULL, SHM_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << 26 /* MAP_HUGE_2MB */, -1, 0);

	if (p == MAP_FAILED)
		return false;
	munmap(p, SHM_SEGMENT_BYTES);
	return true;
}

/** Initialize the lock. It is recursive: its holder may call functions that take it. @return 0 or an errno value. */
static int
make_lock(struct control *c)
{
	pthread_mutexattr_t attr;
	int rc = pthread_mutexattr_init(&attr);

	if (rc != 0)
		return rc;
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	rc = pthread_mutex_init(&c->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return rc;
}

static int
open_watches(struct control *c, int listen_fd)
{
	sigset_t set;
	int rc;

	sigemptyset(&set);
	if (c->s.signals) {
		sigaddset(&set, SIGTERM);
		sigaddset(&set, SIGINT);
		sigaddset(&set, SIGHUP);
	}
	c->epfd = epoll_create1(EPOLL_CLOEXEC);
	c->wake = (struct watch){ on_wake, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	c->signals = (struct watch){ on_signal, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) };
	c->listen = (struct watch){ on_listen, listen_fd };
	if (c->epfd < 0 || c->wake.fd < 0 || c->signals.fd < 0)
		return errno;
	rc = control_watch(c, &c->wake, EPOLLIN);
	if (rc == 0)
		rc = control_watch(c, &c->signals, EPOLLIN);
	/* Without other programs nobody can take memory away from us. */
	if (rc == 0 && listen_fd >= 0)
		rc = sigbus_install(c->wake.fd);
	/* A program may send descriptors once its HELLO was accepted. */
	if (listen_fd >= 0)
		closer_refuse_rights(listen_fd, true);
	if (rc == 0 && listen_fd >= 0)
		rc = control_watch(c, &c->listen, EPOLLIN);
	for (unsigned int i = 0; i < c->s.nb_engines && rc == 0; i++) {
		c->engines[i] = (struct engine_watch){
			.watch = { events_engine, engine_event_fd(c->s.engines[i]) },
			.control = c,
			.engine = c->s.engines[i],
		};
		rc = control_watch(c, &c->engines[i].watch, EPOLLIN);
	}
	return rc;
}

/** @return 0, ENOMEM, or the errno of getrandom(). */
static int
init_tables(struct control *c)
{
	const struct uroced_config *conf = c->s.conf;
	struct secret of_srqns;

	pthread_mutex_init(&c->serving.lock, NULL);
	TAILQ_INIT(&c->sessions);
	TAILQ_INIT(&c->closed);
	TAILQ_INIT(&c->strangers);
	TAILQ_INIT(&c->settling);
	TAILQ_INIT(&c->questions);
	LIST_INIT(&c->users);
	c->subuids = subuid_read(SUBUID_FILE);
	LIST_INIT(&c->xrcds);
	if (getrandom(c->secret.key, sizeof(c->secret.key), 0) != (ssize_t)sizeof(c->secret.key))
		return errno != 0 ? errno : EIO;
	handles_init(&c->pd_ids, NULL);
	handles_init(&c->numbers[OBJ_CQ], NULL);
	handles_init(&c->numbers[OBJ_SRQ], NULL);
	of_srqns = secret_derive(&c->secret);
	handles_init(&c->srqns, &of_srqns);
	handles_init(&c->targets, NULL);
	c->limit[OBJ_PD] = c->limit[OBJ_XRCD] = conf->max_pd;
	/* Memory windows have keys from the MRs' table; device memory is of no use without one. */
	c->limit[OBJ_MR] = c->limit[OBJ_MW] = c->limit[OBJ_DM] = conf->max_mr;
	c->limit[OBJ_CHANNEL] = c->limit[OBJ_CQ] = conf->max_cq;
	c->limit[OBJ_SRQ] = conf->max_srq;
	c->limit[OBJ_QP] = conf->max_qp;
	c->limit[OBJ_AH] = conf->max_ah;
	c->limit[OBJ_CM_ID] = c->limit[OBJ_CM_GROUP] = conf->max_cm_id;
	c->peers = calloc(CONTROL_PEER_BUCKETS, sizeof(*c->peers));
	c->rx = malloc(CONTROL_RX_BYTES);
	/* Numbers of SRQs and PDs start at 1: 0 means none. */
	return c->rx != NULL && c->peers != NULL && handles_add(&c->srqns, c) != HANDLE_NONE && handles_add(&c->pd_ids, c) != HANDLE_NONE ? 0 : ENOMEM;
}

bool
control_names_are_taken(const struct uroced_config *conf)
{
	return (conf->metrics[0] != '\0' && exporter_is_there(conf->metrics)) || (conf->telemetry && telemetry_socket_is_there(conf));
}

struct control *
control_create(const struct control_setup *setup, int listen_fd, char *err)
{
	const struct uroced_config *conf = setup->conf;
	struct control *c = calloc(1, sizeof(*c));
	int rc = ENOMEM;

	if (c == NULL)
		goto fail;
	if (make_lock(c) != 0) {
		free(c);
		c = NULL;
		goto fail;
	}
	c->s = *setup;
	pthread_mutex_init(&c->adopt_lock, NULL);
	c->epfd = c->wake.fd = c->signals.fd = c->listen.fd = c->answers.fd = c->uffd = -1;
	c->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	rc = init_tables(c);
	if (rc == 0)
		rc = saving_start(c, setup->checkpoint, saved_kinds, SAVED_KINDS);
	if (rc != 0)
		goto fail;
	if (conf->userfaultfd)
		c->uffd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	c->shared = setup->opener != NULL ? *setup->opener : shared_ops_own();
	c->hugepages = probe_hugepages();
	rc = open_watches(c, listen_fd);
	if (rc == 0)
		rc = questions_start(c);
	if (rc != 0)
		goto fail;
	c->gsi = gsi_open(c);
	if (c->gsi == NULL) {
		rc = errno;
		goto fail;
	}
	rc = ENOMEM;
	c->cma = cma_create(c, gsi_cm(c->gsi));
	if (c->cma == NULL)
		goto fail;
	events_start(c);
	saved_new(c, &c->saving.stack, SAVED_STACK, c);
	if (conf->metrics[0] != '\0') {
		c->exporter = exporter_start(c, conf->metrics, err);
		if (c->exporter == NULL) {
			control_destroy(c);
			return NULL;
		}
	}
	telemetry_start(c);
	c->stalls = stalls_start(c);
	if (listen_fd >= 0 && conf->telemetry) {
		c->telemetry = telemetry_socket_start(c, telemetry_number(c), err);
		/* The daemon's work is possible without. */
		if (c->telemetry == NULL)
			CTL_LOG(WARNING, "%s", err);
	}
	if (listen_fd >= 0)
		CTL_LOG(INFO, "memory of programs: %s, %s; rings in %s",
			c->uffd >= 0 || programs_have_userfaultfd()
				? "converted in place"
				: "converted in place if the program has one thread or a right to userfaultfd (see daemon.userfaultfd)",
			c->shared.privileged ? "shared memory mapped" : "shared memory copied by the kernel",
			c->hugepages ? "hugepages" : "ordinary pages");
	return c;
fail:
	snprintf(err, CONFIG_ERR_BYTES, "cannot start the control thread: %s", strerror(rc));
	if (c != NULL)
		control_destroy(c);
	return NULL;
}

void
control_destroy(struct control *c)
{
	const int fds[] = { c->wake.fd, c->signals.fd, c->uffd, c->spare_fd, c->epfd };
	struct session *s;

	stalls_stop(c->stalls);
	telemetry_socket_stop(c->telemetry);
	telemetry_stop(c);
	exporter_stop(c->exporter);
	control_capture_stop(c, &(struct capture_stats){ 0 });
	while (c->nb_adopt > 0)
		close(c->adopt[--c->nb_adopt]);
	pthread_mutex_destroy(&c->adopt_lock);
	while ((s = TAILQ_FIRST(&c->sessions)) != NULL)
		session_close(s, "uroced shuts down");
	sessions_reap(c, true);
	questions_stop(c);
	gsi_close(c->gsi);
	cma_destroy(c->cma);
	saving_stop(c);
	ports_stop(c);
	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		net_port_set_sender(c->s.ports[i], NULL, NULL, NULL);
	if (c->listen.fd >= 0) {
		sigbus_uninstall(c->wake.fd);
		close(c->listen.fd);
	}
	for (unsigned int i = 0; i < RTE_DIM(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	handles_fini(&c->pd_ids);
	handles_fini(&c->numbers[OBJ_CQ]);
	handles_fini(&c->numbers[OBJ_SRQ]);
	handles_fini(&c->srqns);
	handles_fini(&c->targets);
	pthread_mutex_destroy(&c->lock);
	subuid_free(c->subuids);
	free(c->peers);
	free(c->rx);
	free(c);
}

void
control_counts(const struct control *c, struct control_counts *out)
{
	*out = (struct control_counts){
		.sessions = c->nb_sessions,
		.pds = c->count[OBJ_PD],
		.mrs = c->count[OBJ_MR],
		.cqs = c->count[OBJ_CQ],
		.srqs = c->count[OBJ_SRQ],
		.qps = c->count[OBJ_QP],
		.ahs = c->count[OBJ_AH],
		.xrcds = c->count[OBJ_XRCD],
		.cm_ids = c->count[OBJ_CM_ID],
	};
}

const struct gsi_counters *
control_gsi_counters(const struct control *c)
{
	return gsi_counters(c->gsi);
}

const struct cm_counters *
control_cm_counters(const struct control *c)
{
	return cm_counters(gsi_cm(c->gsi));
}
