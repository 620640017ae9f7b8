/* SPDX-License-Identifier: BSD-3-Clause */
/* Brings the parts of a stack up in order and takes them down again in the reverse order. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include "uroce/stack.h"
#include "uroce/suspend.h"
#include "control/observe/sysfs.h"

static_assert(UROCE_ERR_BYTES == CONFIG_ERR_BYTES, "a message of the configuration fits");

RTE_LOG_REGISTER(stack_logtype, uroce.stack, INFO);

enum {
	MBUFS_MIN = 16384,
	MBUF_CACHE = 256,
	DEFAULT_DESC = 1024,
	/* Packets held by an engine's rings and its transport. */
	MBUFS_PER_ENGINE = 4096,
	MBUF_ROOM_ALIGN = 128,
	/* Drivers put headers of their own into a buffer: net_virtio 12 bytes. */
	MBUF_DRIVER_BYTES = 12,
	/* Turns of an engine at the end, as long as there is something to do. */
	LAST_TURNS = 1024,
};

static int complain(char *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** @return -1, for the caller to return. */
static int
complain(char *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, UROCE_ERR_BYTES, fmt, ap);
	va_end(ap);
	return -1;
}

/** Keep what SIGHUP needs: where the configuration came from. */
static int
keep_source(struct uroce *u, const struct uroce_params *p, char *err)
{
	if (p->config_file != NULL) {
		u->config_file = strdup(p->config_file);
		if (u->config_file == NULL)
			return complain(err, "no memory for the configuration");
	}
	u->sets = calloc(p->nb_sets + 1, sizeof(*u->sets));
	for (; u->sets != NULL && u->nb_sets < p->nb_sets; u->nb_sets++) {
		u->sets[u->nb_sets] = strdup(p->sets[u->nb_sets]);
		if (u->sets[u->nb_sets] == NULL)
			break;
	}
	return u->sets != NULL && u->nb_sets == p->nb_sets ? 0 : complain(err, "no memory for the configuration");
}

static int
make_pool(struct uroce *u, char *err)
{
	static _Atomic unsigned int pools; /* names of mempools are the process's */
	uint32_t n = u->conf.mbufs, room = RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES + MBUF_DRIVER_BYTES, need = 0;
	char name[RTE_MEMPOOL_NAMESIZE];
	unsigned int i;

	for (i = 0; i < u->conf.nb_ports; i++) {
		const struct net_port_config *p = &u->conf.ports[i].net;

		need += u->nb_engines *
			((p->rx_desc != 0 ? p->rx_desc : DEFAULT_DESC) + (p->tx_desc != 0 ? p->tx_desc : DEFAULT_DESC));
	}
	need += u->nb_engines * MBUFS_PER_ENGINE;
	if (n == 0)
		n = RTE_MAX(need, (uint32_t)MBUFS_MIN);
	room = (room + MBUF_ROOM_ALIGN - 1) / MBUF_ROOM_ALIGN * MBUF_ROOM_ALIGN;
	i = atomic_fetch_add(&pools, 1);
	snprintf(name, sizeof(name), i == 0 ? "uroce_mbufs" : "uroce_mbufs%u", i);
	u->sh.pool = rte_pktmbuf_pool_create(name, n, MBUF_CACHE, 0, (uint16_t)room, (int)rte_socket_id());
	if (u->sh.pool == NULL)
		return complain(err, "no memory for %u packet buffers of %u bytes (%u MiB): %s. Reserve more hugepages "
				"(echo %u > /proc/sys/vm/nr_hugepages), give EAL more by -m MIB, or lower daemon.mbufs",
				n, room, (unsigned int)((uint64_t)n * (room + 256) >> 20), rte_strerror(rte_errno),
				(unsigned int)((uint64_t)n * (room + 256) >> 20));
	if (n < need)
		STACK_LOG(WARNING, "daemon.mbufs = %u is less than the ports and engines may hold at once, %u", n, need);
	return 0;
}

static int
make_tables(struct uroce *u, char *err)
{
	size_t bytes = rte_rcu_qsbr_get_memsize(u->nb_engines);
	struct secret secret = { 0 }, of_mrs, of_qps;

	/* Peers of a stack that has ended know its QP numbers and keys: this one must not give the same ones. */
	if (getrandom(secret.key, sizeof(secret.key), 0) != (ssize_t)sizeof(secret.key))
		return complain(err, "no random numbers: %s", strerror(errno));
	of_mrs = secret_derive(&secret);
	of_qps = secret_derive(&secret);
	u->sh.qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE));
	if (u->sh.qsbr == NULL || rte_rcu_qsbr_init(u->sh.qsbr, u->nb_engines) != 0)
		return complain(err, "no memory for the engines' RCU");
	u->sh.mrs = mr_table_create(u->conf.max_mr, u->sh.qsbr, &of_mrs);
	u->sh.qps = qp_table_create(u->conf.max_qp, u->sh.qsbr, &of_qps);
	u->sh.ahs = ah_table_create(u->conf.max_ah, u->sh.qsbr);
	u->sh.mcasts = mcast_table_create(u->sh.qsbr);
	if (u->sh.mrs == NULL || u->sh.qps == NULL || u->sh.ahs == NULL || u->sh.mcasts == NULL)
		return complain(err, "no memory for the tables of %u MRs, %u QPs and %u AHs: %s; lower daemon.max_mr, "
				"max_qp or max_ah",
				u->conf.max_mr, u->conf.max_qp, u->conf.max_ah, strerror(errno));
	return 0;
}

/**
 * @param all  Each port must open: the programs of the daemon before have them. Else those that don't are tried again by the control.
 */
static int
open_ports(struct uroce *u, bool all, char *err)
{
	char why[UROCE_ERR_BYTES];
	unsigned int absent = 0;
	uint16_t i;
	int rc;

	for (i = 0; i < u->conf.nb_ports; i++) {
		const struct config_port *p = &u->conf.ports[i];

		u->ports[i] = net_port_open(&p->net, i, (uint16_t)u->nb_engines, &u->sh, why, sizeof(why));
		if (u->ports[i] == NULL) {
			/* The first message is the one for the caller, if there is one. */
			if (absent++ == 0)
				memcpy(err, why, sizeof(why));
			if (all)
				return -1;
			if (u->conf.nb_ports > 1)
				STACK_LOG(ERR, "%s", why);
			u->ports[i] = net_port_absent(&p->net, i, (uint16_t)u->nb_engines, &u->sh);
			if (u->ports[i] == NULL)
				return complain(err, "no memory for port %s", p->net.name);
			u->nb_ports++;
			continue;
		}
		u->nb_ports++;
		if (!p->impaired)
			continue;
		rc = impair_attach(u->ports[i]->port_id, u->ports[i]->nb_queues, &p->impair, &u->impairs[i]);
		if (rc != 0)
			return complain(err, "[port %s] impair: the port can't be impaired: %s", p->net.name,
					strerror(abs(rc)));
		atomic_store(&u->ports[i]->impaired, true);
	}
	if (absent == u->nb_ports)
		return -1;
	if (absent > 0)
		STACK_LOG(WARNING, "%u of %u ports can't be opened, see above: the others serve, and these are tried again from time to time", absent,
			  u->nb_ports);
	return 0;
}

/** What survives a crash of this process includes what its engines know. */
static int
make_journals(struct uroce *u, const struct stack_host *host, char *err)
{
	int rc = host->checkpoint != NULL ? stack_journals_create(u) : 0;

	return rc == 0 ? 0 : complain(err, "daemon.survive_crash: no memory for the journals of %u engines: %s", u->nb_engines, strerror(rc));
}

static int
make_engines(struct uroce *u, const unsigned int *lcores, char *err)
{
	unsigned int i;

	for (i = 0; i < u->nb_engines; i++) {
		struct engine_config c = {
			.id = i,
			.nb_engines = u->nb_engines,
			.idle = u->conf.idle,
			.loop_frames = !u->conf.by_reference,
			.ports = u->ports,
			.nb_ports = u->nb_ports,
			.sh = u->sh,
			.nb_cpus = u->nb_cpus,
			.socket_id = (int)(lcores != NULL ? rte_lcore_to_socket_id(lcores[i]) : rte_socket_id()),
			.journal = u->journals[i],
			.journal_limits = u->journal_limits,
		};

		memcpy(c.cpus, u->cpus, sizeof(c.cpus));
		for (uint16_t p = 0; p < u->nb_ports; p++) {
			c.cc[p] = (enum tp_cc)u->conf.ports[p].cc;
			c.features[p] = u->conf.ports[p].features;
		}
		u->engines[i] = engine_create(&c);
		if (u->engines[i] == NULL)
			return complain(err, "cannot create engine %u: %s", i, strerror(errno));
	}
	engine_connect(u->engines, u->nb_engines);
	return 0;
}

static int
make_control(struct uroce *u, const struct stack_host *host, char *err)
{
	struct control_setup setup = {
		.conf = &u->conf,
		.config_file = u->config_file,
		.sets = (const char *const *)u->sets,
		.nb_sets = u->nb_sets,
		.impairs = u->impairs,
		.engines = u->engines,
		.nb_engines = u->nb_engines,
		.cpus = u->cpus,
		.nb_cpus = u->nb_cpus,
		.ports = u->ports,
		.nb_ports = u->nb_ports,
		.sh = u->sh,
		.signals = u->signals,
		.opener = host->opener,
		.hand_over = host->hand_over != NULL ? host->hand_over : u->asked_for != NULL ? suspend_asked : NULL,
		.hand_over_arg = host->hand_over != NULL ? host->hand_over_arg : u,
		.alive = host->alive,
		.alive_arg = host->alive_arg,
		.alive_ms = host->alive_ms,
		.checkpoint = host->checkpoint,
		.crashed_ns = host->crashed_ns,
		.journals = u->keeps_journals ? u->journal_fds : NULL,
		.windows = u->windows_fd,
		.hangup = stacks_reload,
		.arg = u,
	};

	u->control = control_create(&setup, u->listen_fd, err);
	u->listen_fd = -1;
	return u->control != NULL ? 0 : -1;
}

/** Go on with the programs of the daemon before. */
static int
resume(struct uroce *u, struct stream_in *in, char *err)
{
	struct handover_counts n = { 0 };

	if (in == NULL)
		return 0;
	return control_restore(u->control, in, &n, err) == 0 ? 0 : -1;
}

/** @return 0, or -1 with a message. */
static int
bind_socket(struct uroce *u, char *err)
{
	if (control_socket_bind(u->conf.socket, u->conf.socket_mode, u->conf.socket_group, &u->listen_fd, err) != 0)
		return -1;
	u->bound = true;
	return 0;
}

/** A configuration, checked; and the socket, since most mistakes show there. */
static int
configure(struct uroce *u, const struct uroce_params *p, const struct uroced_config *conf, const struct stack_host *host, char *err)
{
	if (keep_source(u, p, err) != 0)
		return -1;
	if (conf != NULL)
		u->conf = *conf;
	else if (config_load(p->config_file, p->sets, p->nb_sets, &u->conf, err) != 0)
		return -1;
	if (p->nb_engines > UROCE_MAX_ENGINES)
		return complain(err, "%u engines: at most %d", p->nb_engines, UROCE_MAX_ENGINES);
	u->nb_engines = p->nb_engines != 0 ? p->nb_engines : 1;
	if (u->conf.log_level != 0)
		rte_log_set_level_pattern("uroce.*", u->conf.log_level);
	return !p->serve || u->listen_fd >= 0 || host->resumes ? 0 : bind_socket(u, err);
}

/** A write to a pipe or socket that a program has closed must fail with EPIPE, not end this process. */
static void
ignore_sigpipe(void)
{
	struct sigaction sa;

	if (sigaction(SIGPIPE, NULL, &sa) == 0 && (sa.sa_flags & SA_SIGINFO) == 0 && sa.sa_handler == SIG_DFL)
		signal(SIGPIPE, SIG_IGN);
}

struct uroce *
stack_prepare(const struct uroce_params *p, const struct uroced_config *conf, int listen_fd, const struct stack_host *host, char *err)
{
	struct uroce *u = calloc(1, sizeof(*u));

	if (u == NULL) {
		complain(err, "no memory for the stack");
		if (listen_fd >= 0) {
			close(listen_fd);
			control_socket_remove(conf->socket);
		}
		return NULL;
	}
	ignore_sigpipe();
	u->signals = p->signals;
	u->asked_for = p->asked_for;
	u->asked_arg = p->asked_arg;
	atomic_init(&u->asked, -1);
	u->nb_cpus = RTE_MIN(host->nb_cpus, (unsigned int)ENGINE_CPUS_MAX);
	if (u->nb_cpus > 0)
		memcpy(u->cpus, host->cpus, u->nb_cpus * sizeof(u->cpus[0]));
	u->listen_fd = listen_fd;
	u->bound = listen_fd >= 0;
	if (configure(u, p, conf, host, err) == 0 && make_pool(u, err) == 0 && make_tables(u, err) == 0)
		return u;
	uroce_destroy(u);
	return NULL;
}

int
stack_open(struct uroce *u, const struct uroce_params *p, const struct stack_host *host, char *err)
{
	if (host->resume != NULL) {
		u->listen_fd = handover_listen_fd(host->resume);
		u->bound = u->resumed = true;
	} else if (host->binds && bind_socket(u, err) != 0) {
		return -1;
	}
	if (open_ports(u, host->resume != NULL, err) != 0 || make_journals(u, host, err) != 0 || make_engines(u, p->lcores, err) != 0 ||
	    make_control(u, host, err) != 0 || resume(u, host->resume, err) != 0)
		return -1;
	pthread_mutex_lock(&stacks_lock);
	TAILQ_INSERT_TAIL(&stacks, u, link);
	pthread_mutex_unlock(&stacks_lock);
	u->listed = true;
	return 0;
}

struct uroce *
stack_create_on(const struct uroce_params *p, const struct uroced_config *conf, int listen_fd, const struct stack_host *host, char *err)
{
	struct uroce *u = stack_prepare(p, conf, listen_fd, host, err);

	if (u == NULL || stack_open(u, p, host, err) == 0)
		return u;
	uroce_destroy(u);
	return NULL;
}

struct uroce *
stack_create(const struct uroce_params *p, const struct uroced_config *conf, int listen_fd, char *err)
{
	static const struct stack_host none;

	return stack_create_on(p, conf, listen_fd, &none, err);
}

struct uroce *
uroce_create(const struct uroce_params *p, char *err)
{
	return stack_create(p, NULL, -1, err);
}

void
uroce_shutdown(struct uroce *u)
{
	/* What there is belongs to another process, which has the socket and serves the programs. */
	if (u->suspended)
		return;
	uroce_control_stop(u);
	/* No new sessions; then end those there are, while the engines can still destroy their QPs. */
	if (u->control != NULL)
		sysfs_remove(u->control);
	if (u->bound)
		control_socket_remove(u->conf.socket);
	u->bound = false;
	if (u->listen_fd >= 0)
		close(u->listen_fd);
	u->listen_fd = -1;
	if (u->control != NULL) {
		/* Take the hangups of programs that have closed their connections: those sessions are not ended by us. */
		control_turn(u->control, 0);
		control_destroy(u->control);
	}
	u->control = NULL;
	if (atomic_load(&u->asked) >= 0)
		close(atomic_exchange(&u->asked, -1));
}

/** With net_ring another port may still hold packets of this pool and free them later: then the pool must stay. */
static void
free_pool(struct rte_mempool *pool)
{
	if (pool == NULL || rte_mempool_full(pool))
		rte_mempool_free(pool);
	else
		STACK_LOG(INFO, "%u packet buffers are still under way; their memory stays", rte_mempool_in_use_count(pool));
}

void
stack_leave(struct uroce *u)
{
	control_leave(u->control);
	for (unsigned int i = 0; i < u->nb_ports; i++) {
		if (u->impairs[i] != NULL)
			impair_detach(u->impairs[i]);
		net_port_leave(u->ports[i]);
	}
}

void
uroce_destroy(struct uroce *u)
{
	unsigned int i, k;

	if (u == NULL || u->suspended)
		return;
	if (u->listed) {
		pthread_mutex_lock(&stacks_lock);
		TAILQ_REMOVE(&stacks, u, link);
		pthread_mutex_unlock(&stacks_lock);
	}
	uroce_shutdown(u);
	for (i = 0; i < u->nb_engines; i++)
		for (k = 0; u->engines[i] != NULL && k < LAST_TURNS && engine_turn(u->engines[i]) > 0; k++)
			;
	for (i = 0; i < u->nb_engines; i++)
		engine_destroy(u->engines[i]);
	stack_journals_destroy(u);
	for (i = 0; i < u->nb_ports; i++) {
		if (u->impairs[i] != NULL)
			impair_detach(u->impairs[i]);
		net_port_close(u->ports[i]);
	}
	if (u->sh.qps != NULL)
		qp_table_destroy(u->sh.qps);
	if (u->sh.ahs != NULL)
		ah_table_destroy(u->sh.ahs);
	mcast_table_destroy(u->sh.mcasts);
	mr_table_destroy(u->sh.mrs);
	free(u->sh.qsbr);
	free_pool(u->sh.pool);
	for (i = 0; i < u->nb_sets; i++)
		free(u->sets[i]);
	free(u->sets);
	free(u->config_file);
	free(u->devices);
	free(u);
}
