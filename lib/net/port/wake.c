/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What wakes an engine that sleeps when packets arrive: the sockets of net_af_packet and net_af_xdp, which those PMDs keep to themselves
 * but every process may find among its own descriptors, and RX interrupts of NICs.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_interrupts.h>

#include "net/net_priv.h"

static bool
has(const int *fds, unsigned int n, int fd)
{
	for (unsigned int i = 0; i < n; i++)
		if (fds[i] == fd)
			return true;
	return false;
}

static int
compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

unsigned int
wake_sockets(int domain, int *fds, unsigned int max)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *d;
	unsigned int n = 0;

	if (dir == NULL)
		return 0;
	while (n < max && (d = readdir(dir)) != NULL) {
		int fd = atoi(d->d_name), of = 0;
		socklen_t len = sizeof(of);

		if (d->d_name[0] != '.' && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &of, &len) == 0 && of == domain)
			fds[n++] = fd;
	}
	closedir(dir);
	/* PMDs open them queue by queue. */
	qsort(fds, n, sizeof(fds[0]), compare);
	return n;
}

void
wake_begin(const struct net_port *p, struct wake_seen *seen)
{
	seen->n = p->priv->pmd.xdp ? wake_sockets(AF_XDP, seen->fds, WAKE_SOCKETS_MAX) : 0;
}

/** Sockets of the PMD, one for each queue. */
static void
find_sockets(struct net_port *p, const struct wake_seen *seen)
{
	int fds[WAKE_SOCKETS_MAX], own[UROCE_MAX_ENGINES];
	unsigned int n = wake_sockets(p->priv->pmd.xdp ? AF_XDP : AF_PACKET, fds, WAKE_SOCKETS_MAX), nb_own = 0;

	for (unsigned int i = 0; i < n; i++) {
		bool ours = p->priv->pmd.xdp ? !has(seen->fds, seen->n, fds[i]) : kernel_is_packet_socket(fds[i], p->ifindex);

		if (ours && nb_own++ < p->nb_queues)
			own[nb_own - 1] = fds[i];
	}
	/* Should a PMD have other sockets as well, its queues are looked at by a timer. */
	for (unsigned int q = 0; q < p->nb_queues && nb_own == p->nb_queues; q++)
		p->wake->fds[q] = own[q];
}

/** RX interrupts, if configure_queues() could ask for them. */
static void
find_interrupts(struct net_port *p)
{
	for (uint16_t q = 0; q < p->nb_queues; q++) {
		int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(p->port_id, q), rc;

		if (fd < 0)
			continue;
		rc = rte_eth_dev_rx_intr_enable(p->port_id, q);
		/* Between the last look and the interrupt's being enabled packets may arrive, so it must be possible to count them. */
		if (rc == 0 && rte_eth_rx_queue_count(p->port_id, q) >= 0) {
			p->wake->arms = true;
			p->wake->fds[q] = fd;
		} else if (rc == -ENOTSUP) {
			p->wake->fds[q] = fd; /* always enabled, as net_tap's are */
		}
		if (rc == 0)
			rte_eth_dev_rx_intr_disable(p->port_id, q);
	}
}

int
wake_find(struct net_port *p, const struct wake_seen *seen)
{
	p->wake = calloc(1, sizeof(*p->wake));
	if (p->wake == NULL)
		return ENOMEM;
	for (unsigned int q = 0; q < UROCE_MAX_ENGINES; q++)
		p->wake->fds[q] = -1;
	if (p->shared)
		find_sockets(p, seen);
	else if (p->priv->interrupts)
		find_interrupts(p);
	return 0;
}

void
wake_again(struct net_port *p)
{
	if (p->shared)
		return; /* its sockets are still the same */
	for (unsigned int q = 0; q < UROCE_MAX_ENGINES; q++)
		p->wake->fds[q] = -1;
	p->wake->arms = false;
	if (p->priv->interrupts)
		find_interrupts(p);
}

void
wake_sending(const struct net_port *p)
{
	for (unsigned int q = 0; q < p->nb_queues; q++) {
		int fd = p->wake->fds[q], error;
		socklen_t len = sizeof(error);

		/*
		 * That the interface went down is an error of the socket, which its next sendto() returns instead of sending what is in
		 * the ring. Reading the error clears it. If an engine's sendto() had it, what that should have sent is still there.
		 */
		if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0)
			send(fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

int
net_port_wake_fd(const struct net_port *p, uint16_t queue)
{
	return p->wake != NULL && queue < p->nb_queues ? p->wake->fds[queue] : -1;
}

bool
net_port_wake_is_doubtful(const struct net_port *p)
{
	return p->wake != NULL && p->wake->arms;
}

bool
net_port_wake_arm(const struct net_port *p, uint16_t queue)
{
	if (!p->wake->arms)
		return true;
	rte_eth_dev_rx_intr_enable(p->port_id, queue);
	return rte_eth_rx_queue_count(p->port_id, queue) <= 0;
}

void
net_port_wake_disarm(const struct net_port *p, uint16_t queue)
{
	if (p->wake->arms)
		rte_eth_dev_rx_intr_disable(p->port_id, queue);
}
