/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>

#include <rte_rcu_qsbr.h>

#include "control/core/impairing_priv.h"
#include "impair.h"

/** Remove an impairment. Engines may be in its callbacks until their next quiescent state. */
static void
remove_impair(struct control *c, struct impair **im)
{
	struct impair *old = *im;

	*im = NULL;
	impair_unhook(old);
	if (c->s.sh.qsbr != NULL)
		rte_rcu_qsbr_synchronize(c->s.sh.qsbr, RTE_QSBR_THRID_INVALID);
	impair_detach(old);
}

void
impairing_device_gone(struct control *c, unsigned int port)
{
	if (c->s.impairs != NULL && c->s.impairs[port] != NULL)
		remove_impair(c, &c->s.impairs[port]);
	atomic_store(&c->s.ports[port]->impaired, false);
}

int
impairing_set(struct control *c, unsigned int port, const struct impair_params *p)
{
	struct net_port *n;
	int rc = 0;

	if (port >= c->s.nb_ports)
		return EINVAL;
	if (c->s.impairs == NULL)
		return ENOTSUP;
	n = c->s.ports[port];
	if (net_port_is_gone(n))
		rc = 0; /* once it is back */
	else if (p == NULL && c->s.impairs[port] != NULL)
		remove_impair(c, &c->s.impairs[port]);
	else if (p != NULL && c->s.impairs[port] != NULL)
		impair_set(c->s.impairs[port], p);
	else if (p != NULL)
		rc = abs(impair_attach(n->port_id, n->nb_queues, p, &c->s.impairs[port]));
	atomic_store(&n->impaired, c->s.impairs[port] != NULL);
	if (rc != 0)
		return rc;
	c->s.conf->ports[port].impaired = p != NULL;
	if (p != NULL)
		c->s.conf->ports[port].impair = *p;
	return 0;
}
