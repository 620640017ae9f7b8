/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mempool that ThreadSanitizer understands: DPDK's are in libraries that are not compiled with it, so that it sees no order between
 * who gives an mbuf back and who gets it next. EAL option: --mbuf-pool-ops-name=tsan.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mempool.h>

struct stack {
	pthread_mutex_t lock;
	unsigned int n;
	void *objs[];
};

static int
pool_alloc(struct rte_mempool *mp)
{
	struct stack *s = calloc(1, sizeof(*s) + mp->size * sizeof(void *));

	if (s == NULL)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	mp->pool_data = s;
	return 0;
}

static void
pool_free(struct rte_mempool *mp)
{
	free(mp->pool_data);
}

static int
pool_put(struct rte_mempool *mp, void *const *objs, unsigned int n)
{
	struct stack *s = mp->pool_data;

	pthread_mutex_lock(&s->lock);
	memcpy(s->objs + s->n, objs, n * sizeof(*objs));
	s->n += n;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int
pool_get(struct rte_mempool *mp, void **objs, unsigned int n)
{
	struct stack *s = mp->pool_data;
	int rc = -ENOBUFS;

	pthread_mutex_lock(&s->lock);
	if (s->n >= n) {
		s->n -= n;
		memcpy(objs, s->objs + s->n, n * sizeof(*objs));
		rc = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static unsigned int
pool_count(const struct rte_mempool *mp)
{
	struct stack *s = mp->pool_data;
	unsigned int n;

	pthread_mutex_lock(&s->lock);
	n = s->n;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static const struct rte_mempool_ops ops = {
	.name = "tsan",
	.alloc = pool_alloc,
	.free = pool_free,
	.enqueue = pool_put,
	.dequeue = pool_get,
	.get_count = pool_count,
};

RTE_MEMPOOL_REGISTER_OPS(ops);
