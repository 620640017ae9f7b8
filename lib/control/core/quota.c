/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>

#include <rte_common.h>

#include "control/core/quota_priv.h"

#define MIB (UINT64_C(1) << 20)

/** The limits for each type of object: offsets in struct uroced_config (0: no limit), and the keys. */
static const struct limit {
	size_t session, user;
	const char *session_key, *user_key;
} limits[OBJ_TYPES] = {
#define LIMIT(name) offsetof(struct uroced_config, session_##name), offsetof(struct uroced_config, user_##name), \
		    "session_" #name, "user_" #name
	[OBJ_QP] = { LIMIT(max_qp) },
	[OBJ_CHANNEL] = { LIMIT(max_cq) },
	[OBJ_CQ] = { LIMIT(max_cq) },
	[OBJ_MR] = { LIMIT(max_mr) },
#undef LIMIT
};

static uint32_t
configured(const struct control *c, size_t offset)
{
	return offset != 0 ? *(const uint32_t *)((const char *)c->s.conf + offset) : 0;
}

struct user *
quota_enter(struct control *c, uid_t uid)
{
	struct user *u;

	LIST_FOREACH(u, &c->users, link) {
		if (u->uid == uid)
			break;
	}
	if (u == NULL) {
		u = calloc(1, sizeof(*u));
		if (u == NULL)
			return NULL;
		u->uid = uid;
		LIST_INSERT_HEAD(&c->users, u, link);
	}
	u->sessions++;
	return u;
}

void
quota_leave(struct user *u)
{
	if (u == NULL || --u->sessions > 0)
		return;
	LIST_REMOVE(u, link);
	free(u);
}

bool
quota_session(const struct control *c, struct user *u)
{
	bool fits = c->s.conf->user_max_sessions == 0 || u->sessions <= c->s.conf->user_max_sessions;

	if (!fits && !u->logged)
		CTL_LOG(NOTICE, "uid %u wants more sessions than daemon.user_max_sessions = %u", (unsigned int)u->uid,
			c->s.conf->user_max_sessions);
	u->logged = !fits;
	return fits;
}

/** Fail the request. Logged once per session and key, since a program that tries again and again would fill the log. */
static int
refuse(struct session *s, struct request *r, int err, const char *key, uint64_t limit, const char *what)
{
	uint32_t bit = 0;

	/*
	 * A hash of the key selects the bit. If two keys share a bit, a line is missing in the log, which does no harm.
	 */
	for (const char *p = key; *p != '\0'; p++)
		bit = bit * 31 + (uint8_t)*p;
	bit = UINT32_C(1) << bit % 32;
	if ((s->limits_logged & bit) == 0)
		CTL_LOG(NOTICE, "%s (pid %d, uid %u) wants more %s than daemon.%s = %" PRIu64, s->program, (int)s->pid,
			(unsigned int)s->uid, what, key, limit);
	s->limits_logged |= bit;
	return req_fail(r, err, "no more %s for this %s: daemon.%s is %" PRIu64, what, key[0] == 's' ? "program" : "user", key,
			limit);
}

int
quota_object(struct session *s, enum obj_type type, const char *name, struct request *r)
{
	const struct limit *l = &limits[type];
	uint32_t of_session = configured(s->control, l->session), of_user = configured(s->control, l->user);
	char what[32];

	snprintf(what, sizeof(what), "%ss", name);
	if (s->own)
		return 0;
	if (of_session != 0 && s->tab[type].used >= of_session)
		return refuse(s, r, ENOMEM, l->session_key, of_session, what);
	if (of_user != 0 && s->user->count[type] >= of_user)
		return refuse(s, r, ENOMEM, l->user_key, of_user, what);
	return 0;
}

/** @return true if @p have plus @p more bytes exceed @p mib MiB; 0: no limit. */
static bool
too_much(uint64_t have, uint64_t more, uint32_t mib)
{
	return mib != 0 && (more > mib * MIB || have > mib * MIB - more);
}

int
quota_register(struct session *s, uint64_t bytes, uint64_t less, struct request *r)
{
	const struct uroced_config *conf = s->control->s.conf;

	if (s->own)
		return 0;
	if (too_much(s->registered - less, bytes, conf->session_max_memory))
		return refuse(s, r, ENOMEM, "session_max_memory", conf->session_max_memory, "registered MiB");
	if (too_much(s->user->registered - less, bytes, conf->user_max_memory))
		return refuse(s, r, ENOMEM, "user_max_memory", conf->user_max_memory, "registered MiB");
	return 0;
}

void
quota_registered(struct session *s, uint64_t bytes, uint64_t less)
{
	UROCE_ASSERT(s->registered >= less && s->user->registered >= less);
	s->registered += bytes - less;
	s->user->registered += bytes - less;
}

/** Fill the bucket. @return true if it has a token, which is not taken yet. */
static bool
rate_has(struct limit_rate *b, uint32_t per_second, uint64_t now_ns)
{
	if (b->at_ns == 0)
		b->left = per_second;
	else
		b->left += (double)(now_ns - b->at_ns) * per_second / 1e9;
	b->left = RTE_MIN(b->left, (double)per_second);
	b->at_ns = now_ns;
	return b->left >= 1;
}

int
quota_connect(struct session *s, struct request *r)
{
	const struct uroced_config *conf = s->control->s.conf;
	uint64_t now_ns = control_now_ns();

	if (s->own)
		return 0;
	if (conf->session_max_connects != 0 && !rate_has(&s->connects, conf->session_max_connects, now_ns))
		return refuse(s, r, EAGAIN, "session_max_connects", conf->session_max_connects, "connections per second");
	if (conf->user_max_connects != 0 && !rate_has(&s->user->connects, conf->user_max_connects, now_ns))
		return refuse(s, r, EAGAIN, "user_max_connects", conf->user_max_connects, "connections per second");
	if (conf->session_max_connects != 0)
		s->connects.left--;
	if (conf->user_max_connects != 0)
		s->user->connects.left--;
	return 0;
}
