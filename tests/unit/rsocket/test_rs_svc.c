/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/rsocket/rs_svc.c, which is part of this file: the service and the streams that gather. Its thread isn't
 * started; the test is the thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rsocket/rs_priv.h"

static struct rs_stream stream;
static int nb_tries;

/* Who ends a stream sends what is gathered, under the lock, unless a thread of the program's has slock. */
static int
trylock_sender(pthread_mutex_t *m)
{
	if (m == &stream.rs.lock)
		return pthread_mutex_trylock(m);
	assert_ptr_equal(m, &stream.slock);
	assert_int_equal(pthread_mutex_trylock(&stream.rs.lock), EBUSY);
	nb_tries++;
	return pthread_mutex_trylock(m);
}

#define pthread_mutex_trylock trylock_sender
#include "rsocket/rs_svc.c"
#undef pthread_mutex_trylock

/* ---- What the service calls ---- */
void
rs_flush_any(struct rs_stream *s)
{
	atomic_store(&s->gathered, 0);
}

uint64_t
rs_now_us(void)
{
	return 0;
}

void
rs_wake_drain(int fd)
{
}

void
rs_each(void (*f)(struct rsocket *rs))
{
}

void
rs_fail(struct rs_stream *s, int err)
{
}

void
rs_ctrl_keepalive(struct rs_stream *s)
{
}

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	return NULL;
}

void
rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
}

int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	return -1;
}

int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	return 0;
}

static int
setup(void **state)
{
	stream = (struct rs_stream){ 0 };
	pthread_mutex_init(&stream.rs.lock, NULL);
	pthread_mutex_init(&stream.slock, NULL);
	nb_tries = 0;
	rs_svc_gathering(&stream);
	return 0;
}

static int
teardown(void **state)
{
	rs_svc_forget(&stream);
	return 0;
}

static void
stream_without_bytes_leaves_the_list(void **state)
{
	atomic_store(&stream.gathered, 1);
	for (int i = 0; i < SVC_IDLE_TURNS; i++) {
		flush_gathered();
		assert_int_equal(atomic_load(&stream.gathered), 0);
		assert_true(stream.in_gathering);
	}
	flush_gathered();
	assert_int_equal(nb_tries, 1);
	assert_false(stream.in_gathering);
	assert_null(svc.gathering);
	assert_int_equal(pthread_mutex_trylock(&stream.slock), 0);
	assert_int_equal(pthread_mutex_trylock(&stream.rs.lock), 0);
}

static void
stream_that_a_thread_sends_on_stays(void **state)
{
	pthread_mutex_lock(&stream.slock);
	for (int i = 0; i < 2 * SVC_IDLE_TURNS; i++)
		flush_gathered();
	assert_true(nb_tries > 0);
	assert_true(stream.in_gathering);
	assert_ptr_equal(svc.gathering, &stream);
	assert_int_equal(pthread_mutex_trylock(&stream.rs.lock), 0);
}

/* To wait for it, once a millisecond, would cost the program system calls while it sends (verbs/syscalls). */
static void
stream_that_a_thread_uses_stays_and_is_not_waited_for(void **state)
{
	pthread_mutex_lock(&stream.rs.lock);
	for (int i = 0; i < 2 * SVC_IDLE_TURNS; i++)
		flush_gathered();
	assert_int_equal(nb_tries, 0);
	assert_true(stream.in_gathering);
	pthread_mutex_unlock(&stream.rs.lock);
	flush_gathered();
	assert_false(stream.in_gathering);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stream_without_bytes_leaves_the_list, setup, teardown),
		cmocka_unit_test_setup_teardown(stream_that_a_thread_sends_on_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(stream_that_a_thread_uses_stays_and_is_not_waited_for, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
