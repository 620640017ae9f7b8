/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "objects.h"

static const char *const kinds[OBJECT_KINDS] = {
	[OBJECT_PD] = "pd", [OBJECT_MR] = "mr", [OBJECT_CQ] = "cq", [OBJECT_SRQ] = "srq",
	[OBJECT_QP] = "qp", [OBJECT_AH] = "ah", [OBJECT_MW] = "mw", [OBJECT_XRCD] = "xrcd",
};
static struct object *objects[OBJECTS_MAX];
static unsigned int nb_objects;
static unsigned int last_number[OBJECT_KINDS], count[OBJECT_KINDS];

const char *
object_kind_name(enum object_kind k)
{
	return kinds[k];
}

struct object *
object_new(enum object_kind k, struct host *h)
{
	struct object *o = nb_objects < OBJECTS_MAX ? calloc(1, sizeof(*o)) : NULL;

	if (o == NULL)
		return NULL;
	if (count[k]++ == 0)
		last_number[k] = 0;
	o->kind = k;
	o->host = h;
	snprintf(o->name, sizeof(o->name), "%s%u", kinds[k], ++last_number[k]);
	objects[nb_objects++] = o;
	return o;
}

struct object *
object_use(struct object *of)
{
	if (of != NULL)
		of->users++;
	return of;
}

static void
unuse(struct object *of)
{
	if (of != NULL)
		of->users--;
}

static void
forget(struct object *o)
{
	unsigned int i;

	for (i = 0; objects[i] != o; i++)
		;
	memmove(&objects[i], &objects[i + 1], (--nb_objects - i) * sizeof(objects[0]));
	count[o->kind]--;
	unuse(o->pd);
	unuse(o->cq);
	unuse(o->recv_cq);
	unuse(o->srq);
	unuse(o->xrcd);
	if (o->memory != NULL)
		munmap(o->memory, o->bytes);
	/* No QP may still refer to it as its peer. */
	for (i = 0; i < nb_objects; i++)
		if (objects[i]->peer.qp == o)
			objects[i]->peer.qp = NULL;
	free(o);
}

static int
destroy_verbs(struct object *o)
{
	if (o->v.any == NULL)
		return 0;
	switch (o->kind) {
	case OBJECT_PD:
		return ibv_dealloc_pd(o->v.pd);
	case OBJECT_MR:
		return ibv_dereg_mr(o->v.mr);
	case OBJECT_CQ:
		return ibv_destroy_cq(o->v.cq);
	case OBJECT_SRQ:
		return ibv_destroy_srq(o->v.srq);
	case OBJECT_QP:
		return ibv_destroy_qp(o->v.qp);
	case OBJECT_AH:
		return ibv_destroy_ah(o->v.ah);
	case OBJECT_MW:
		return ibv_dealloc_mw(o->v.mw);
	case OBJECT_XRCD:
		return ibv_close_xrcd(o->v.xrcd);
	case OBJECT_KINDS:
		break;
	}
	return EINVAL;
}

int
object_destroy(struct object *o)
{
	int rc = destroy_verbs(o);

	if (rc == 0)
		forget(o);
	return rc;
}

void
objects_destroy_all(void)
{
	static const enum object_kind order[] = { OBJECT_QP, OBJECT_SRQ, OBJECT_AH, OBJECT_MW, OBJECT_MR, OBJECT_CQ, OBJECT_XRCD,
						  OBJECT_PD };
	struct object *o;

	for (unsigned int k = 0; k < OBJECT_KINDS; k++)
		while ((o = object_at(order[k], 0)) != NULL)
			if (object_destroy(o) != 0)
				forget(o);
}

struct object *
object_at(enum object_kind k, unsigned int i)
{
	for (unsigned int n = 0; n < nb_objects; n++)
		if (objects[n]->kind == k && i-- == 0)
			return objects[n];
	return NULL;
}

struct object *
object_find(enum object_kind k, const char *name)
{
	for (unsigned int i = 0; name != NULL && i < nb_objects; i++)
		if (objects[i]->kind == k && strcmp(objects[i]->name, name) == 0)
			return objects[i];
	return NULL;
}

const char *
object_name(enum object_kind k, const struct host *h, uint64_t number)
{
	struct object *o;

	for (unsigned int i = 0; (o = object_at(k, i)) != NULL; i++)
		if (o->host == h && (k == OBJECT_CQ ? o->number : k == OBJECT_QP ? o->v.qp->qp_num : o->v.mr->lkey) == number)
			return o->name;
	return "-";
}

#define NAMES(kind, KIND) \
	const char *kind##_names(unsigned int i) \
	{ \
		struct object *o = object_at(KIND, i); \
		return o != NULL ? o->name : NULL; \
	}
NAMES(pd, OBJECT_PD)
NAMES(mr, OBJECT_MR)
NAMES(cq, OBJECT_CQ)
NAMES(srq, OBJECT_SRQ)
NAMES(qp, OBJECT_QP)
NAMES(ah, OBJECT_AH)
NAMES(mw, OBJECT_MW)
NAMES(xrcd, OBJECT_XRCD)
#undef NAMES

enum ibv_qp_state
object_qp_state(const struct object *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	/* The library's qp->state isn't updated on errors. */
	return ibv_query_qp(qp->v.qp, &attr, IBV_QP_STATE, &init) == 0 ? attr.qp_state : qp->v.qp->state;
}
