/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include "control/core/evsock_priv.h"
#include "control/obj/obj_cq_priv.h"

int
op_channel_create(struct session *s, struct request *r)
{
	struct obj_channel *ch;
	int theirs, rc;

	ch = obj_new(s, OBJ_CHANNEL, sizeof(*ch), r, &rc);
	if (ch == NULL)
		return rc;
	rc = evsock_pair(&ch->fd, &theirs);
	if (rc != 0) {
		obj_free(s, OBJ_CHANNEL, &ch->obj);
		return req_fail(r, rc, "no descriptors for the completion channel: %s", strerror(rc));
	}
	ch->records = EVSOCK_RECORDS;
	r->rsp.handle.handle = ch->obj.handle;
	req_send_fd(r, theirs, true);
	req_send_fd(r, ch->fd, false);
	return 0;
}

void
obj_channel_use(struct obj_channel *ch)
{
	ch->obj.users++;
	/* A program that reads an event before it arms the CQ again has one unread event per CQ at most. */
	if (ch->obj.users <= ch->records / 2)
		return;
	ch->records *= 2;
	evsock_make_room(ch->fd, ch->records);
}

void
obj_channel_destroy(struct session *s, struct obj_channel *ch)
{
	close(ch->fd);
	obj_free(s, OBJ_CHANNEL, &ch->obj);
}

int
op_channel_destroy(struct session *s, struct request *r)
{
	struct obj_channel *ch = r->obj;

	if (ch->obj.users > 0)
		return req_fail(r, EBUSY, "%u CQs use the completion channel; destroy them first", ch->obj.users);
	obj_channel_destroy(s, ch);
	return 0;
}
