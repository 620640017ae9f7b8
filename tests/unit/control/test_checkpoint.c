/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkpoint by itself: what counts after a crash at any moment, and what is done about damage. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/record.h"
#include "control/core/checkpoint.h"
#include "control/core/checkpoint_priv.h"

enum { OBJECTS = 64, STEPS = 4000, FDS = 4096 };

struct test_record {
	struct record_head head;
	uint64_t object, value;
};

/** What a reader finds: values of objects, in their order. */
struct seen {
	struct checkpoint_found found;
	struct stream_out o;
	struct stream_in in;
};

/* ---- Who keeps descriptors ---- */
static struct {
	bool kept[FDS];
	uint32_t next, n, most;
	int memfd;
} host;

static int
begin(void *arg, int fd)
{
	host.memfd = fd;
	return 0;
}

static int
keep(void *arg, int fd, uint32_t *number)
{
	if (host.n == host.most)
		return ENFILE;
	*number = host.next++ % FDS;
	assert_false(host.kept[*number]);
	host.kept[*number] = true;
	host.n++;
	return 0;
}

static void look(struct seen *s);
static const struct test_record *next(struct seen *s);

/** In the middle of a commit: a reader finds what holds now, and not what held before as well. */
static void
forget(void *arg, uint32_t number)
{
	const struct test_record *r;
	struct seen s;

	look(&s);
	while ((r = next(&s)) != NULL)
		assert_true(r->value != number || !host.kept[number]);
	stream_free(&s.o);
	assert_true(host.kept[number]);
	host.kept[number] = false;
	host.n--;
}

static void
complete(void *arg)
{
}

static struct checkpoint *
make(void)
{
	const struct checkpoint_host h = { .begin = begin, .keep = keep, .forget = forget, .complete = complete };
	struct checkpoint *c;

	memset(&host, 0, sizeof(host));
	host.most = FDS;
	c = checkpoint_create(&h);
	assert_non_null(c);
	return c;
}

/* ---- Objects ---- */
/** Write an object: its record, and @p tail bytes behind. */
static int
put(struct checkpoint *c, struct checkpoint_entry *e, uint64_t session, uint32_t kind, uint64_t object, uint64_t value, size_t tail, int fd)
{
	const struct checkpoint_key key = { .session = session, .kind = kind, .order = object };
	struct test_record r = { .object = object, .value = value };
	static struct stream_out o;
	void *more = calloc(1, tail + 1);
	int rc;

	memset(more, (int)value, tail);
	checkpoint_begin(c, e, &o);
	if (fd >= 0)
		r.value = stream_put_fd(&o, fd);
	stream_put(&o, RECORD_OBJ_PD, &r, sizeof(r), more, tail);
	free(more);
	rc = checkpoint_write(c, e, &key, &o);
	return rc;
}

static void
look(struct seen *s)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(checkpoint_read(host.memfd, &s->o, &s->found, NULL, NULL), 0);
	s->in = (struct stream_in){ .bytes = s->o.bytes, .n = s->o.n };
}

static const struct test_record *
next(struct seen *s)
{
	return stream_next(&s->in, RECORD_OBJ_PD, sizeof(struct test_record));
}

static void
done(struct seen *s)
{
	assert_null(next(s));
	stream_free(&s->o);
}

/* ---- Tests ---- */
static void
what_is_not_committed_does_not_count(void **state)
{
	struct checkpoint *c = make();
	struct checkpoint_entry e[3] = { 0 };
	struct seen s;

	put(c, &e[0], 1, 5, 10, 100, 0, -1);
	put(c, &e[1], 1, 5, 11, 101, 0, -1);
	look(&s);
	done(&s);
	assert_true(checkpoint_commit(c));
	assert_false(checkpoint_commit(c));
	put(c, &e[0], 1, 5, 10, 200, 0, -1);
	checkpoint_drop(c, &e[1]);
	put(c, &e[2], 1, 5, 12, 102, 0, -1);
	look(&s);
	assert_int_equal(next(&s)->value, 100);
	assert_int_equal(next(&s)->value, 101);
	done(&s);
	checkpoint_commit(c);
	look(&s);
	assert_int_equal(next(&s)->value, 200);
	assert_int_equal(next(&s)->value, 102);
	done(&s);
	checkpoint_drop(c, &e[0]);
	checkpoint_drop(c, &e[2]);
	checkpoint_commit(c);
	checkpoint_destroy(c);
}

static void
records_come_in_the_order_of_a_hand_over(void **state)
{
	static const struct {
		uint64_t session;
		uint32_t kind;
		uint64_t order;
	} keys[] = { { UINT64_MAX, 0, 4 }, { 2, 1, 3 }, { 1, 2, 9 }, { 1, 2, 8 }, { 1, 1, 12 }, { 0, 7, 1 } };
	struct checkpoint *c = make();
	struct checkpoint_entry e[6] = { 0 };
	struct seen s;

	for (uint64_t i = 0; i < 6; i++)
		put(c, &e[i], keys[i].session, keys[i].kind, keys[i].order, i, 0, -1);
	checkpoint_commit(c);
	look(&s);
	for (uint64_t i = 6; i-- > 0;)
		assert_int_equal(next(&s)->value, i);
	done(&s);
	for (int i = 0; i < 6; i++)
		checkpoint_drop(c, &e[i]);
	checkpoint_destroy(c);
}

static void
descriptors_are_kept_as_long_as_records_name_them(void **state)
{
	struct checkpoint *c = make();
	struct checkpoint_entry e = { 0 };
	struct seen s;
	int a = memfd_create("a", 0), b = memfd_create("b", 0), number = dup(a);

	put(c, &e, 1, 1, 1, 0, 0, a);
	assert_int_equal(host.n, 1);
	checkpoint_commit(c);
	/* The same file again is the same one. */
	put(c, &e, 1, 1, 1, 0, 0, a);
	checkpoint_commit(c);
	assert_int_equal(host.n, 1);
	assert_true(host.kept[0]);
	/* Another file under the same number isn't. The first is kept until nothing names it that counts. */
	dup2(b, a);
	put(c, &e, 1, 1, 1, 0, 0, a);
	assert_int_equal(host.n, 2);
	look(&s);
	assert_int_equal(next(&s)->value, 0);
	done(&s);
	checkpoint_commit(c);
	assert_int_equal(host.n, 1);
	assert_true(host.kept[1]);
	put(c, &e, 1, 1, 1, 7, 0, -1);
	checkpoint_commit(c);
	assert_int_equal(host.n, 0);
	host.most = 0;
	assert_int_equal(put(c, &e, 1, 1, 1, 0, 0, a), ENFILE);
	checkpoint_commit(c);
	look(&s);
	done(&s);
	checkpoint_destroy(c);
	close(a);
	close(b);
	close(number);
}

static void *
map(size_t *bytes)
{
	struct stat st;
	void *p;

	assert_int_equal(fstat(host.memfd, &st), 0);
	*bytes = (size_t)st.st_size;
	p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, host.memfd, 0);
	assert_true(p != MAP_FAILED);
	return p;
}

/** Each byte of a slot: its session is left out whole, or nothing is different; the other session is there. */
static void
damage_costs_its_session(void **state)
{
	struct checkpoint *c = make();
	struct checkpoint_entry e[3] = { 0 };
	size_t bytes, lost = 0;
	struct seen s;

	put(c, &e[0], 1, 1, 1, 100, 24, -1);
	put(c, &e[1], 2, 1, 1, 200, 24, -1);
	put(c, &e[2], 2, 2, 1, 201, 24, -1);
	checkpoint_commit(c);
	uint8_t *p = map(&bytes), *slot = (uint8_t *)e[2].slot;

	(void)p;
	for (size_t i = 0; i < sizeof(struct checkpoint_slot) + sizeof(struct test_record) + 24; i++) {
		slot[i] ^= 0x10;
		look(&s);
		assert_int_equal(next(&s)->value, 100);
		if (s.found.damaged > 0 && s.found.sessions_lost == 1) {
			lost++;
		} else if (i >= offsetof(struct checkpoint_slot, session) && i < offsetof(struct checkpoint_slot, order)) {
			/* The slot is of nobody then. */
			assert_int_equal(s.found.damaged, 1);
			assert_int_equal(next(&s)->value, 200);
		} else {
			/* It looks free, as if it didn't count, or as if it had ended. */
			assert_true(i < offsetof(struct checkpoint_slot, session));
			assert_int_equal(next(&s)->value, 200);
			(void)next(&s);
		}
		done(&s);
		slot[i] ^= 0x10;
	}
	assert_true(lost > sizeof(struct test_record) + 24);
	munmap(p, bytes);
	for (int i = 0; i < 3; i++)
		checkpoint_drop(c, &e[i]);
	checkpoint_destroy(c);
}

static void
something_else_is_refused(void **state)
{
	int fd = memfd_create("else", 0);
	struct checkpoint_found found;
	struct stream_out o = { 0 };
	struct checkpoint *c;
	uint32_t *p;
	size_t bytes;

	assert_int_equal(checkpoint_read(fd, &o, &found, NULL, NULL), EPROTO);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(checkpoint_read(fd, &o, &found, NULL, NULL), EPROTO);
	assert_int_not_equal(checkpoint_read(-1, &o, &found, NULL, NULL), 0);
	close(fd);
	c = make();
	p = map(&bytes);
	p[1]++;
	assert_int_equal(checkpoint_read(host.memfd, &o, &found, NULL, NULL), EPROTO);
	munmap(p, bytes);
	checkpoint_destroy(c);
	stream_free(&o);
}

static uint32_t
random_next(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/** Objects of all sizes come, change and go; a reader finds what held at the last commit, and slots are used again. */
static void
a_reader_finds_what_held_last(void **state)
{
	struct checkpoint *c = make();
	struct checkpoint_entry e[OBJECTS] = { 0 };
	uint64_t now[OBJECTS] = { 0 }, counts[OBJECTS] = { 0 }, middle = 0;
	uint32_t seed = 1, k;
	struct seen s;

	for (uint64_t i = 1; i <= STEPS; i++) {
		k = random_next(&seed) % OBJECTS;
		if (now[k] != 0 && random_next(&seed) % 3 == 0) {
			checkpoint_drop(c, &e[k]);
			now[k] = 0;
		} else {
			size_t tail = random_next(&seed) % 100 == 0 ? 3 << 20 : (random_next(&seed) % 600) * 8;

			assert_int_equal(put(c, &e[k], 1 + k % 5, 1, k, i, tail, -1), 0);
			now[k] = i;
		}
		if (random_next(&seed) % 4 == 0) {
			checkpoint_commit(c);
			memcpy(counts, now, sizeof(counts));
		}
		if (i == STEPS / 2)
			middle = checkpoint_bytes(c);
		if (i % 50 != 0)
			continue;
		look(&s);
		for (uint64_t session = 1; session <= 5; session++)
			for (k = (uint32_t)session - 1; k < OBJECTS; k += 5) {
				const struct test_record *r = counts[k] != 0 ? next(&s) : NULL;

				if (r == NULL) {
					assert_int_equal(counts[k], 0);
					continue;
				}
				assert_int_equal(r->object, k);
				assert_int_equal(r->value, counts[k]);
			}
		done(&s);
	}
	assert_true(checkpoint_bytes(c) < middle * 2);
	for (k = 0; k < OBJECTS; k++)
		checkpoint_drop(c, &e[k]);
	checkpoint_commit(c);
	checkpoint_destroy(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_committed_does_not_count),
		cmocka_unit_test(records_come_in_the_order_of_a_hand_over),
		cmocka_unit_test(descriptors_are_kept_as_long_as_records_name_them),
		cmocka_unit_test(damage_costs_its_session),
		cmocka_unit_test(something_else_is_refused),
		cmocka_unit_test(a_reader_finds_what_held_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
