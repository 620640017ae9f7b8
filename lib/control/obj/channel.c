/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include "base/evsock.h"
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

struct channel_record {
	struct record_head head;
	uint32_t handle, fd, records, reserved;
};

int
obj_channel_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_channel *ch = obj;
	const struct channel_record r = { .handle = ch->obj.handle, .fd = stream_put_fd(o, ch->fd), .records = ch->records };

	stream_put(o, RECORD_OBJ_CHANNEL, &r, sizeof(r), NULL, 0);
	return 0;
}

int
obj_channel_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct channel_record *from;
	struct obj_channel *ch;
	int rc = 0;

	while ((from = stream_next(in, RECORD_OBJ_CHANNEL, sizeof(*from))) != NULL) {
		ch = obj_new_as(s, OBJ_CHANNEL, sizeof(*ch), from->handle, r, &rc);
		if (ch == NULL)
			return rc;
		ch->fd = stream_take_fd(in, from->fd);
		ch->records = from->records;
		if (ch->fd < 0 || ch->records == 0) {
			obj_free(s, OBJ_CHANNEL, &ch->obj);
			return req_fail(r, EINVAL, "completion channel %#x has no socket", from->handle);
		}
	}
	return rc;
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
