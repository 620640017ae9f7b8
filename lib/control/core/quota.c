/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <inttypes.h>

#include <rte_common.h>

#include "control/core/quota_priv.h"
#include "control/core/subuid_priv.h"

/** The rows of CONFIG_QUOTAS: offsets of the limits in struct uroced_config, and words for messages. */
static const struct kind {
	size_t session, user;
	const char *key; /**< without session_ or user_ */
	uint64_t unit;
	const char *plural;
} kinds[QUOTAS] = {
#define X(kind, session_, user_, most_, unit_, plural_) \
	[QUOTA_##kind] = { offsetof(struct uroced_config, session_max_##kind), offsetof(struct uroced_config, user_max_##kind), \
			   "max_" #kind, unit_, plural_ },
	CONFIG_QUOTAS(X)
#undef X
};
static_assert(QUOTAS < 32, "a bit for each kind, and one for connections, in session.limits_logged and user.logged");

const char *
quota_key(enum quota kind)
{
	return kinds[kind].key;
}

struct user *
quota_enter(struct control *c, uid_t uid)
{
	struct user *u;

	uid = subuid_owner(c->subuids, uid);
	LIST_FOREACH(u, &c->users, link) {
		if (u->uid == uid)
			break;
	}
	if (u == NULL) {
		u = calloc(1, sizeof(*u));
		if (u == NULL)
			return NULL;
		u->uid = uid;
		for (unsigned int i = 0; i < UROCE_MAX_ENGINES; i++)
			share_group_init(&u->groups[i]);
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
	for (unsigned int i = 0; i < QUOTAS; i++)
		UROCE_ASSERT(u->used[i] == 0);
	LIST_REMOVE(u, link);
	free(u);
}

/** @return true if the limits of users are limits of @p u. */
static bool
user_is_limited(const struct control *c, const struct user *u)
{
	return u->uid != 0 || c->s.conf->limit_root;
}

/** @return true if the log has room for a line: programs could cause any number. */
static bool
may_log(struct control *c)
{
	uint64_t more = burst_over(&c->refusals, control_now_ns());

	if (more > 0)
		CTL_LOG(NOTICE, "%" PRIu64 " more requests met a limit of their program or user", more);
	return burst_take(&c->refusals, CONTROL_LOG_BURST);
}

/**
 * Fail the request, and log that once.
 * @param once  The bit of the kind in @p logged.
 * @param whose  "session" or "user".
 */
static int
refuse(struct session *s, struct request *r, int err, uint32_t *logged, uint32_t once, const char *whose, const char *key,
       uint64_t limit, const char *plural)
{
	if ((*logged & once) == 0 && may_log(s->control)) {
		CTL_LOG(NOTICE, "%s (pid %d, uid %u) wants more %s than daemon.%s_%s = %" PRIu64, s->program, (int)s->pid,
			(unsigned int)s->uid, plural, whose, key, limit);
		*logged |= once;
	}
	if (r == NULL)
		return err;
	return req_fail(r, err, "no more %s for this %s: daemon.%s_%s is %" PRIu64, plural,
			whose[0] == 's' ? "program" : "user", whose, key, limit);
}

/** @return true if @p have plus @p more exceed @p limit, in @p unit; 0: no limit. */
static bool
too_much(uint64_t have, uint64_t more, uint32_t limit, uint64_t unit)
{
	return limit != 0 && (more > limit * unit || have > limit * unit - more);
}

static uint32_t
configured(const struct control *c, size_t offset)
{
	return *(const uint32_t *)((const char *)c->s.conf + offset);
}

/** The limits of a kind that @p n more would exceed. */
enum verdict { FITS, BEYOND_SESSION, BEYOND_USER };

static enum verdict
judge(const struct session *s, enum quota kind, uint64_t n)
{
	const struct kind *k = &kinds[kind];

	if (s->own)
		return FITS;
	if (too_much(s->used[kind], n, configured(s->control, k->session), k->unit))
		return BEYOND_SESSION;
	if (user_is_limited(s->control, s->user) &&
	    too_much(s->user->used[kind], n, configured(s->control, k->user), k->unit))
		return BEYOND_USER;
	return FITS;
}

bool
quota_fits(const struct session *s, enum quota kind, uint64_t n)
{
	return judge(s, kind, n) == FITS;
}

void
quota_charge(struct session *s, enum quota kind, uint64_t n)
{
	s->used[kind] += n;
	s->user->used[kind] += n;
}

void
quota_give(struct session *s, enum quota kind, uint64_t n)
{
	UROCE_ASSERT(s->used[kind] >= n && s->user->used[kind] >= n);
	s->used[kind] -= n;
	s->user->used[kind] -= n;
}

void
quota_move(struct session *from, struct session *to, enum quota kind, uint64_t n)
{
	quota_give(from, kind, n);
	quota_charge(to, kind, n);
}

int
quota_take(struct session *s, enum quota kind, uint64_t n, struct request *r)
{
	const struct kind *k = &kinds[kind];

	/* Without a limit, too: memory of a program that isn't there may be registered again and again. */
	if (s->user->used[kind] > QUOTA_MOST || n > QUOTA_MOST - s->user->used[kind]) {
		s->control->refused[kind]++;
		return r == NULL ? ENOMEM : req_fail(r, ENOMEM, "no more %s for this user: they add up to 2^63", k->plural);
	}
	switch (judge(s, kind, n)) {
	case BEYOND_SESSION:
		s->control->refused[kind]++;
		return refuse(s, r, ENOMEM, &s->limits_logged, 1u << kind, "session", k->key, configured(s->control, k->session),
			      k->plural);
	case BEYOND_USER:
		s->control->refused[kind]++;
		return refuse(s, r, ENOMEM, &s->user->logged, 1u << kind, "user", k->key, configured(s->control, k->user),
			      k->plural);
	case FITS:
		break;
	}
	quota_charge(s, kind, n);
	return 0;
}

int
quota_session(struct session *s, struct request *r)
{
	const struct uroced_config *conf = s->control->s.conf;
	struct user *u = s->user;
	bool fits = s->own || !user_is_limited(s->control, u) || conf->user_max_sessions == 0 ||
		    u->sessions <= conf->user_max_sessions;
	uint32_t logged = u->logged_session;
	int rc = 0;

	if (!fits) {
		s->control->refused_sessions++;
		rc = refuse(s, r, EMFILE, &logged, 1, "user", "max_sessions", conf->user_max_sessions, "sessions");
	}
	u->logged_session = !fits && logged != 0;
	if (rc == 0 && quota_take(s, QUOTA_fd, SESSION_FDS, r) != 0)
		rc = EMFILE;
	if (rc == 0 && quota_take(s, QUOTA_metadata, SESSION_BYTES, r) != 0) {
		quota_give(s, QUOTA_fd, SESSION_FDS);
		rc = EMFILE;
	}
	s->charged = rc == 0;
	return rc;
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
	uint32_t of_user = user_is_limited(s->control, s->user) ? conf->user_max_connects : 0;
	uint64_t now_ns = control_now_ns();

	if (s->own)
		return 0;
	if (conf->session_max_connects != 0 && !rate_has(&s->connects, conf->session_max_connects, now_ns))
		return refuse(s, r, EAGAIN, &s->limits_logged, 1u << QUOTAS, "session", "max_connects",
			      conf->session_max_connects, "connections per second");
	if (of_user != 0 && !rate_has(&s->user->connects, of_user, now_ns))
		return refuse(s, r, EAGAIN, &s->user->logged, 1u << QUOTAS, "user", "max_connects", of_user,
			      "connections per second");
	if (conf->session_max_connects != 0)
		s->connects.left--;
	if (of_user != 0)
		s->user->connects.left--;
	return 0;
}
