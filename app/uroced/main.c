/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced: brings everything up in order, runs the control loop on the main lcore and the engines on the others, and
 * takes everything down again in the reverse order.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include "control.h"
#include "mem.h"
#include "options.h"

enum {
	MBUFS_MIN = 16384,
	MBUF_CACHE = 256,
	DEFAULT_DESC = 1024,
	/* Packets on their way between engines and in the transport, per engine. */
	MBUFS_PER_ENGINE = 4096,
	MBUF_ROOM_ALIGN = 128,
};

/** Everything that main() has brought up. */
struct uroced {
	struct uroced_config conf;
	bool eal, bound, running;
	int listen_fd;
	struct rte_mempool *pool;
	struct rte_rcu_qsbr *qsbr;
	struct mr_table *mrs;
	struct qp_table *qps;
	struct ah_table *ahs;
	struct mcast_table *mcasts;
	struct net_port *ports[UROCE_MAX_PORTS];
	struct impair *impairs[UROCE_MAX_PORTS];
	uint16_t nb_ports;
	struct engine *engines[UROCE_MAX_ENGINES];
	unsigned int lcores[UROCE_MAX_ENGINES];
	unsigned int nb_engines;
	struct control *control;
};

static int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** @return -1, for the caller to return. */
static int
complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("uroced: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return -1;
}

/** Every session needs some descriptors. */
static void
raise_limits(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

/** Signals that end us, and SIGHUP, go to the control loop's signalfd; a client's closed pipe is an error code. */
static void
block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int
start_eal(struct uroced *u, const struct options *o)
{
	if (rte_eal_init(o->eal_argc, o->eal_argv) < 0)
		return complain("DPDK's EAL doesn't start: %s. The lines above say more. If memory is missing: reserve "
				"hugepages "
				"(echo 512 > /proc/sys/vm/nr_hugepages) or give EAL --no-huge -m 512. If another DPDK "
				"program runs: "
				"give EAL --file-prefix NAME",
				rte_strerror(rte_errno));
	u->eal = true;
	if (u->conf.log_level != 0)
		rte_log_set_level_pattern("uroce.*", u->conf.log_level);
	return 0;
}

static int
find_lcores(struct uroced *u)
{
	unsigned int lcore;

	RTE_LCORE_FOREACH_WORKER(lcore)
	{
		if (u->nb_engines == UROCE_MAX_ENGINES)
			return complain("more than %d lcores for engines; give EAL fewer by -l", UROCE_MAX_ENGINES);
		u->lcores[u->nb_engines++] = lcore;
	}
	if (u->nb_engines == 0)
		return complain("no lcore for an engine; give EAL two or more, for example -l 0-1, or on a machine "
				"with one core "
				"--lcores '0@0,1@0'");
	return 0;
}

static int
make_pool(struct uroced *u)
{
	uint32_t n = u->conf.mbufs, room = RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES, need = 0;
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
	u->pool = rte_pktmbuf_pool_create("uroce_mbufs", n, MBUF_CACHE, 0, (uint16_t)room, (int)rte_socket_id());
	if (u->pool == NULL)
		return complain("no memory for %u packet buffers of %u bytes (%u MiB): %s. Reserve more hugepages "
				"(echo %u > /proc/sys/vm/nr_hugepages), give EAL more by -m MIB, or lower daemon.mbufs",
				n, room, (unsigned int)((uint64_t)n * (room + 256) >> 20), rte_strerror(rte_errno),
				(unsigned int)((uint64_t)n * (room + 256) >> 20));
	if (n < need)
		fprintf(stderr,
			"uroced: warning: daemon.mbufs = %u is less than the ports and engines may hold at once, %u\n",
			n, need);
	return 0;
}

static int
make_tables(struct uroced *u)
{
	size_t bytes = rte_rcu_qsbr_get_memsize(u->nb_engines);

	u->qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE));
	if (u->qsbr == NULL || rte_rcu_qsbr_init(u->qsbr, u->nb_engines) != 0)
		return complain("no memory for the engines' RCU");
	u->mrs = mr_table_create(u->conf.max_mr, u->qsbr);
	u->qps = qp_table_create(u->conf.max_qp, u->qsbr);
	u->ahs = ah_table_create(u->conf.max_ah, u->qsbr);
	u->mcasts = mcast_table_create(u->qsbr);
	if (u->mrs == NULL || u->qps == NULL || u->ahs == NULL || u->mcasts == NULL)
		return complain("no memory for the tables of %u MRs, %u QPs and %u AHs: %s; lower daemon.max_mr, "
				"max_qp or max_ah",
				u->conf.max_mr, u->conf.max_qp, u->conf.max_ah, strerror(errno));
	return 0;
}

static int
open_ports(struct uroced *u)
{
	char err[CONFIG_ERR_BYTES];
	uint16_t i;
	int rc;

	for (i = 0; i < u->conf.nb_ports; i++) {
		const struct config_port *p = &u->conf.ports[i];

		u->ports[i] = net_port_open(&p->net, i, (uint16_t)u->nb_engines, u->pool, err, sizeof(err));
		if (u->ports[i] == NULL)
			return complain("%s", err);
		u->nb_ports++;
		if (!p->impaired)
			continue;
		rc = impair_attach(u->ports[i]->port_id, u->ports[i]->nb_queues, &p->impair, &u->impairs[i]);
		if (rc != 0)
			return complain("[port %s] impair: the port can't be impaired: %s", p->net.name,
					strerror(abs(rc)));
	}
	return 0;
}

static int
make_engines(struct uroced *u)
{
	unsigned int i;

	for (i = 0; i < u->nb_engines; i++) {
		struct engine_config c = {
			.id = i,
			.nb_engines = u->nb_engines,
			.idle = u->conf.idle,
			.ports = u->ports,
			.nb_ports = u->nb_ports,
			.mrs = u->mrs,
			.qps = u->qps,
			.ahs = u->ahs,
			.mcasts = u->mcasts,
			.qsbr = u->qsbr,
			.pool = u->pool,
			.socket_id = (int)rte_lcore_to_socket_id(u->lcores[i]),
		};

		for (uint16_t p = 0; p < u->nb_ports; p++)
			c.cc[p] = (enum tp_cc)u->conf.ports[p].cc;
		u->engines[i] = engine_create(&c);
		if (u->engines[i] == NULL)
			return complain("cannot create engine %u: %s", i, strerror(errno));
	}
	engine_connect(u->engines, u->nb_engines);
	return 0;
}

static int
start(struct uroced *u, const struct options *o)
{
	struct control_setup setup = {
		.conf = &u->conf,
		.config_file = o->config,
		.sets = o->sets,
		.nb_sets = o->nb_sets,
		.impairs = u->impairs,
		.engines = u->engines,
		.nb_engines = u->nb_engines,
		.ports = u->ports,
		.nb_ports = u->nb_ports,
		.mrs = u->mrs,
		.qps = u->qps,
		.ahs = u->ahs,
		.mcasts = u->mcasts,
		.qsbr = u->qsbr,
		.pool = u->pool,
	};
	char err[CONFIG_ERR_BYTES];
	unsigned int i;
	int rc;

	u->control = control_create(&setup, u->listen_fd, err);
	u->listen_fd = -1;
	if (u->control == NULL)
		return complain("%s", err);
	for (i = 0; i < u->nb_engines; i++) {
		rc = rte_eal_remote_launch(engine_loop, u->engines[i], u->lcores[i]);
		if (rc != 0)
			return complain("engine %u doesn't start on lcore %u: %s", i, u->lcores[i], strerror(-rc));
		u->running = true;
	}
	if (control_socket_publish(u->conf.socket, err) != 0)
		return complain("%s", err);
	printf("uroced: ready, socket %s, %u port%s, %u engine%s\n", u->conf.socket, u->nb_ports,
	       u->nb_ports == 1 ? "" : "s", u->nb_engines, u->nb_engines == 1 ? "" : "s");
	fflush(stdout);
	return 0;
}

static int
bring_up(struct uroced *u, const struct options *o)
{
	char err[CONFIG_ERR_BYTES];

	if (control_socket_bind(u->conf.socket, u->conf.socket_mode, u->conf.socket_group, &u->listen_fd, err) != 0)
		return complain("%s", err);
	u->bound = true;
	if (start_eal(u, o) != 0 || find_lcores(u) != 0 || make_pool(u) != 0 || make_tables(u) != 0 ||
	    open_ports(u) != 0 || make_engines(u) != 0)
		return -1;
	return start(u, o);
}

/**
 * May EAL's memory be taken away? In DPDK 22.11 net_memif's server never takes its listener off EAL's interrupt thread, which
 * then reads memory that rte_eal_cleanup() has unmapped, now and then. The end of the process cleans up as well.
 */
static bool
cleanup_is_safe(const struct uroced *u)
{
	for (unsigned int i = 0; i < u->conf.nb_ports; i++)
		if (strncmp(u->conf.ports[i].net.ethdev, "net_memif", strlen("net_memif")) == 0)
			return false;
	return true;
}

/** Undo what bring_up() did, however far it came. */
static void
take_down(struct uroced *u)
{
	unsigned int i;

	/* Nobody new comes; then those who are there go, while the engines can still let go of their QPs. */
	if (u->bound)
		control_socket_remove(u->conf.socket);
	if (u->listen_fd >= 0)
		close(u->listen_fd);
	if (u->control != NULL)
		control_destroy(u->control);
	for (i = 0; i < u->nb_engines && u->running; i++)
		engine_stop(u->engines[i]);
	if (u->running)
		rte_eal_mp_wait_lcore();
	for (i = 0; i < u->nb_engines; i++) {
		if (u->engines[i] != NULL)
			engine_destroy(u->engines[i]);
	}
	for (i = 0; i < u->nb_ports; i++) {
		if (u->impairs[i] != NULL)
			impair_detach(u->impairs[i]);
		net_port_close(u->ports[i]);
	}
	if (u->qps != NULL)
		qp_table_destroy(u->qps);
	if (u->ahs != NULL)
		ah_table_destroy(u->ahs);
	mcast_table_destroy(u->mcasts);
	mr_table_destroy(u->mrs);
	free(u->qsbr);
	if (u->eal && cleanup_is_safe(u))
		rte_eal_cleanup();
}

/**
 * --vdev net_impairN,port=ETHDEV,... is `impair` of the port with that ethdev, and as everything on the command line wins
 * over the file: so it becomes a --set, and stays in force when the file is read again.
 */
static int
take_vdevs(struct uroced *u, struct options *o, const struct impair_vdevs *v)
{
	char names[CONFIG_ERR_BYTES] = "", *set;
	unsigned int i, k;

	for (i = 0; i < v->n; i++) {
		const struct impair_vdev *d = &v->vdev[i];
		const char *port = NULL;

		for (k = 0; k < u->conf.nb_ports; k++) {
			const struct config_port *p = &u->conf.ports[k];

			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", k > 0 ? ", " : "",
				 p->net.ethdev);
			if (strcmp(p->net.ethdev, d->port) == 0)
				port = p->net.name;
		}
		if (port == NULL)
			return complain("--vdev %s: port=%s: no port of the configuration has this ethdev; there are: %s",
					d->name, d->port, names);
		if (o->nb_sets == OPTIONS_MAX_SETS ||
		    asprintf(&set, "port %s.impair=%s", port, d->settings[0] != '\0' ? d->settings : "seed=1") < 0)
			return complain("--vdev %s: too many settings, or no memory", d->name);
		o->sets[o->nb_sets++] = set; /* lives as long as the process */
	}
	return 0;
}

/** Read command line and configuration. @return -1 with the mistake told. */
static int
configure(struct uroced *u, struct options *o)
{
	char err[CONFIG_ERR_BYTES];
	struct impair_vdevs vdevs;

	if (impair_vdevs_take(&o->eal_argc, o->eal_argv, &vdevs, err, sizeof(err)) != 0 ||
	    config_load(o->config, o->sets, o->nb_sets, &u->conf, err) != 0)
		return complain("%s", err);
	if (vdevs.n == 0)
		return 0;
	if (take_vdevs(u, o, &vdevs) != 0)
		return -1;
	return config_load(o->config, o->sets, o->nb_sets, &u->conf, err) != 0 ? complain("%s", err) : 0;
}

int
main(int argc, char **argv)
{
	static struct uroced u = { .listen_fd = -1 };
	static struct options o;
	int status;

	if (options_parse(argc, argv, &o, &status) != 0)
		return status;
	if (configure(&u, &o) != 0)
		return EXIT_USAGE;
	if (o.check) {
		printf("uroced: the configuration is good: socket %s, %u port%s\n", u.conf.socket, u.conf.nb_ports,
		       u.conf.nb_ports == 1 ? "" : "s");
		return EXIT_SUCCESS;
	}
	raise_limits();
	block_signals();
	status = EXIT_FAILURE;
	if (bring_up(&u, &o) == 0) {
		control_run(u.control);
		status = EXIT_SUCCESS;
	}
	take_down(&u);
	return status;
}
