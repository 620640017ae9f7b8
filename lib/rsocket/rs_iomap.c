/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * riomap(), riounmap(), riowrite(): memory of the program that the peer writes to directly, by offset.
 *
 * Each end has a table that the other writes: entry i says which memory belongs to offsets [offset, offset + length).
 * riomap() finds a free entry and registers the memory; before the next data the peer is told, by a write to the entry
 * with RS_OP_IOMAP_SGL. These messages consume no sequence number here. (rdma-core's sender consumes one that its
 * receiver never grants again; receivers of both kinds work without it.)
 */
#include "rsocket/rs_priv.h"

/** @return a stream that has an endpoint, or NULL with errno set */
static struct rs_stream *
find(int socket)
{
	struct rsocket *rs = rs_find(socket);

	if (!rs || rs->type != SOCK_STREAM || !to_stream(rs)->was_connected) {
		errno = !rs ? EBADF : rs->type != SOCK_STREAM ? EOPNOTSUPP : ENOTCONN;
		return NULL;
	}
	return to_stream(rs);
}

/** Under map_lock. @return a free entry of the peer's table, -1: none */
static int32_t
free_place(const struct rs_stream *s)
{
	const struct rs_mapping *m;

	for (uint32_t i = 0; i < s->peer.iomaps; i++) {
		for (m = s->mappings; m && m->index != (int32_t)i; m = m->next)
			;
		if (!m)
			return (int32_t)i;
	}
	return -1;
}

static int
add(struct rs_stream *s, void *buf, size_t len, bool remote, uint64_t offset)
{
	struct rs_mapping *m, **end = &s->mappings;
	int32_t place = remote ? free_place(s) : -1;

	if ((remote && place < 0) || !(m = calloc(1, sizeof(*m))))
		return ENOMEM;
	m->mr = ibv_reg_mr(s->id->pd, buf, len, IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0));
	if (!m->mr) {
		free(m);
		return errno;
	}
	m->index = place;
	m->offset = offset;
	m->told = !remote;
	while (*end)
		end = &(*end)->next;
	*end = m;
	if (remote)
		atomic_fetch_add(&s->untold, 1);
	return 0;
}

RS_EXPORT off_t
riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rs_stream *s = find(socket);
	int err;

	if (!s)
		return -1;
	if ((prot & ~(PROT_WRITE | PROT_NONE)) || !len || len > UINT32_MAX || offset < -1)
		return rs_result(EINVAL);
	if (offset == -1)
		offset = (off_t)(uintptr_t)buf;
	pthread_mutex_lock(&s->map_lock);
	err = add(s, buf, len, prot & PROT_WRITE, (uint64_t)offset);
	pthread_mutex_unlock(&s->map_lock);
	return err ? rs_result(err) : offset;
}

/** Under map_lock. */
static void
drop(struct rs_stream *s, struct rs_mapping **p)
{
	struct rs_mapping *m = *p;

	*p = m->next;
	if (!m->told)
		atomic_fetch_sub(&s->untold, 1);
	ibv_dereg_mr(m->mr);
	free(m);
}

RS_EXPORT int
riounmap(int socket, void *buf, size_t len)
{
	struct rs_stream *s = find(socket);
	struct rs_mapping **p;
	int err = EINVAL;

	if (!s)
		return -1;
	pthread_mutex_lock(&s->map_lock);
	for (p = &s->mappings; *p; p = &(*p)->next) {
		if ((*p)->mr->addr == buf && (*p)->mr->length == len) {
			drop(s, p);
			err = 0;
			break;
		}
	}
	pthread_mutex_unlock(&s->map_lock);
	return rs_result(err);
}

void
rs_iomap_free(struct rs_stream *s)
{
	while (s->mappings)
		drop(s, &s->mappings);
}

/** Under map_lock. */
static int
tell_one(struct rs_stream *s, struct rs_mapping *m)
{
	struct rs_iomap map = {
		.offset = m->offset,
		.sge = { (uintptr_t)m->mr->addr, m->mr->rkey, (uint32_t)m->mr->length },
	};
	struct rs_sge where = s->peer.list;
	uint32_t msg = rs_msg(RS_OP_IOMAP_SGL, (uint32_t)m->index);
	struct rs_cursor c;
	struct iovec iov = { &map, sizeof(map) };

	map = rs_iomap_for(&map, s->peer.swap);
	where.addr += s->peer.list.length * sizeof(struct rs_sge) + (uint32_t)m->index * sizeof(map);
	rs_cursor_init(&c, &iov, 1);
	return rs_post_write(s, &c, sizeof(map), &where, &msg);
}

int
rs_iomap_tell(struct rs_stream *s, int flags)
{
	int err = 0;

	pthread_mutex_lock(&s->map_lock);
	for (struct rs_mapping *m = s->mappings; m && !err; m = m->next) {
		if (m->told)
			continue;
		err = rs_wait_to_send(s, rs_has_room, flags);
		if (!err)
			err = tell_one(s, m);
		if (!err) {
			m->told = true;
			atomic_fetch_sub(&s->untold, 1);
		}
	}
	pthread_mutex_unlock(&s->map_lock);
	return err;
}

void
rs_iomap_told(struct rs_stream *s, uint32_t index)
{
	volatile struct rs_iomap *place;

	if (index >= s->rs.sizes.iomaps)
		return;
	place = &s->table[index];
	s->peer_maps[index] = (struct rs_iomap){
		place->offset,
		{ place->sge.addr, place->sge.key, place->sge.length },
	};
}

/**
 * @param where  Set to the memory that @p offset is mapped to.
 * @return bytes of the mapping from @p offset on, 0: nothing is mapped there
 */
static uint64_t
look_up(struct rs_stream *s, uint64_t offset, struct rs_sge *where)
{
	uint64_t left = 0;

	pthread_mutex_lock(&s->rs.lock);
	for (uint32_t i = 0; i < s->rs.sizes.iomaps && !left; i++) {
		const struct rs_iomap *m = &s->peer_maps[i];

		if (offset < m->offset || offset - m->offset >= m->sge.length)
			continue;
		left = m->sge.length - (offset - m->offset);
		*where = m->sge;
		where->addr += offset - m->offset;
	}
	pthread_mutex_unlock(&s->rs.lock);
	return left;
}

static bool
look_once(struct rsocket *rs)
{
	return true;
}

/** Under slock. */
static int
write_on(struct rs_stream *s, struct rs_cursor *c, uint64_t offset, int flags)
{
	uint32_t bytes, room, most = RS_TRANSFER_FIRST;
	struct rs_sge where;
	uint64_t left;
	int err;

	while (c->left) {
		left = look_up(s, offset, &where);
		if (!left) {
			/* The peer's mapping may have just arrived. */
			rs_wait(&s->rs, look_once, RS_EV_OUT, true, -1);
			left = look_up(s, offset, &where);
		}
		if (!left)
			return EFAULT;
		err = rs_wait_to_send(s, rs_has_room, flags);
		if (err)
			return err;
		bytes = c->left < most ? (uint32_t)c->left : most;
		room = rs_tx_free_bytes(&s->tx);
		bytes = bytes > room ? room : bytes;
		bytes = bytes > left ? (uint32_t)left : bytes;
		if (most < RS_TRANSFER_MAX)
			most *= 2;
		err = rs_post_write(s, c, bytes, &where, NULL);
		if (err)
			return err;
		offset += bytes;
	}
	return 0;
}

RS_EXPORT size_t
riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct rs_stream *s = find(socket);
	struct iovec iov = { (void *)buf, count };
	struct rs_cursor c;
	int err, before = errno;

	if (!s)
		return (size_t)-1;
	err = offset < 0 ? EINVAL : rs_cursor_init(&c, &iov, 1);
	if (err)
		return (size_t)rs_result(err);
	pthread_mutex_lock(&s->slock);
	err = rs_flush(s);
	if (!err && atomic_load(&s->untold))
		err = rs_iomap_tell(s, flags);
	if (!err)
		err = write_on(s, &c, (uint64_t)offset, flags);
	rs_unlock_sender(s);
	err = c.left == count ? err : 0;
	return rs_waited(err, before) ? (size_t)-1 : count - c.left;
}
