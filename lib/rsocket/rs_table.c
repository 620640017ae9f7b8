/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding rsockets by number. The table has two levels; entries are read without a lock. A program that closes an
 * rsocket while another of its threads uses it has a bug, as with file descriptors. The library's own thread, which
 * visits all rsockets, prevents that they leave the table meanwhile.
 */
#include <sys/eventfd.h>
#include <unistd.h>

#include "rsocket/rs_priv.h"

enum { TABLE_BITS = 10, TABLE_PAGE = 1 << TABLE_BITS, TABLE_PAGES = 1 << TABLE_BITS };

typedef struct rsocket *_Atomic table_entry;

static table_entry *_Atomic table[TABLE_PAGES];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

int
rs_result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int
rs_waited(int err, int errno_before)
{
	errno = err ? err : errno_before;
	return err ? -1 : 0;
}

static table_entry *
entry_of(int fd)
{
	table_entry *page;

	if (fd < 0 || fd >> TABLE_BITS >= TABLE_PAGES)
		return NULL;
	page = atomic_load_explicit(&table[fd >> TABLE_BITS], memory_order_acquire);
	return page ? &page[fd & (TABLE_PAGE - 1)] : NULL;
}

struct rsocket *
rs_find_any(int fd)
{
	table_entry *e = entry_of(fd);

	return e ? atomic_load_explicit(e, memory_order_acquire) : NULL;
}

struct rsocket *
rs_find(int fd)
{
	struct rsocket *rs = rs_find_any(fd);

	return rs && !rs->foreign ? rs : NULL;
}

/** Under table_lock. */
static void
each_locked(void (*f)(struct rsocket *rs))
{
	for (int i = 0; i < TABLE_PAGES; i++) {
		table_entry *page = atomic_load_explicit(&table[i], memory_order_acquire);

		for (int j = 0; page && j < TABLE_PAGE; j++) {
			struct rsocket *rs = atomic_load_explicit(&page[j], memory_order_acquire);

			if (rs && !rs->foreign)
				f(rs);
		}
	}
}

void
rs_each(void (*f)(struct rsocket *rs))
{
	pthread_mutex_lock(&table_lock);
	each_locked(f);
	pthread_mutex_unlock(&table_lock);
}

static void
disown(struct rsocket *rs)
{
	rs->foreign = true;
}

void
rs_table_fork_child(void)
{
	pthread_mutex_init(&table_lock, NULL);
	rs_each(disown);
}

/** Under table_lock. */
static int
enter_fd(int fd, struct rsocket *rs)
{
	table_entry *page;

	if (fd >> TABLE_BITS >= TABLE_PAGES)
		return EMFILE;
	page = atomic_load_explicit(&table[fd >> TABLE_BITS], memory_order_relaxed);
	if (!page) {
		page = calloc(TABLE_PAGE, sizeof(*page));
		atomic_store_explicit(&table[fd >> TABLE_BITS], page, memory_order_release);
	}
	if (!page)
		return ENOMEM;
	atomic_store_explicit(&page[fd & (TABLE_PAGE - 1)], rs, memory_order_release);
	return 0;
}

int
rs_enter(struct rsocket *rs, const struct rs_ops *ops, int type, int domain)
{
	int err;

	rs->ops = ops;
	rs->type = type;
	rs->domain = domain;
	rs->wait_fd = -1;
	rs->sizes = *rs_conf_sizes();
	rs->linger_on = 1;
	rs->fd = eventfd(0, EFD_CLOEXEC);
	if (rs->fd < 0)
		return errno;
	pthread_mutex_init(&rs->lock, NULL);
	pthread_mutex_lock(&table_lock);
	err = enter_fd(rs->fd, rs);
	pthread_mutex_unlock(&table_lock);
	if (err) {
		pthread_mutex_destroy(&rs->lock);
		close(rs->fd);
	}
	return err;
}

void
rs_table_remove(int fd)
{
	pthread_mutex_lock(&table_lock);
	atomic_store_explicit(entry_of(fd), NULL, memory_order_release);
	pthread_mutex_unlock(&table_lock);
	close(fd);
}

void
rs_renumber(struct rsocket *rs)
{
	int unused = eventfd(0, EFD_CLOEXEC), old = rs->fd;

	if (unused < 0)
		return;
	pthread_mutex_lock(&table_lock);
	if (!enter_fd(unused, rs)) {
		rs->fd = unused;
		atomic_store_explicit(entry_of(old), NULL, memory_order_release);
		unused = old;
	}
	pthread_mutex_unlock(&table_lock);
	close(unused);
}

void
rs_leave(struct rsocket *rs)
{
	rs_table_remove(rs->fd);
	pthread_mutex_destroy(&rs->lock);
}
