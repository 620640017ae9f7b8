/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions about the mappings of programs: whoever answers them late, or never, keeps one session waiting, for a limited time. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/memory/questions_priv.h"
#include "daemon.h"

enum { MAX_SESSIONS = 40, MAX_QP = 10, PAGE = 4096, SOON_MS = 1000, ASKED_MAX = 64, WAIT_STEP_US = 1000 };

/** Who opens files here: the test, when it likes to. */
static struct {
	struct question_seen {
		uint64_t number;
		unsigned int n; /**< 0: about a process */
	} asked[ASKED_MAX];
	_Atomic unsigned int nb_asked;
	struct shared_answer next;
	_Atomic bool has_next;
	_Atomic bool gone, silent;
	int fd; /**< an eventfd: there is an answer */
} other;

static uint8_t *memory;
static int memory_fd;

static int
note(uint64_t number, unsigned int n)
{
	unsigned int i = other.nb_asked;

	assert_true(i < ASKED_MAX);
	if (other.gone)
		return EPIPE;
	other.asked[i] = (struct question_seen){ number, n };
	other.nb_asked = i + 1;
	return 0;
}

/** Answered at once, unless @c silent. */
static int
ask_process(void *arg, uint64_t number, int sock)
{
	const uint64_t one = 1;

	if (other.silent)
		return note(number, 0);
	if (other.has_next || other.gone)
		return ENOMEM;
	other.next = (struct shared_answer){ .number = number };
	shared_process(getpid(), &other.next.dir, &other.next.maps);
	other.has_next = true;
	return write(other.fd, &one, sizeof(one)) == sizeof(one) ? 0 : ENOMEM;
}

static int
ask_open(void *arg, uint64_t number, int dir, int maps, const struct shared_range *ranges, unsigned int n)
{
	return note(number, n);
}

static int
take_answer(void *arg, struct shared_answer *a)
{
	uint64_t n;

	if (other.gone)
		return EPIPE;
	if (!other.has_next)
		return EAGAIN;
	*a = other.next;
	other.has_next = false;
	return read(other.fd, &n, sizeof(n)) == sizeof(n) ? 0 : EAGAIN;
}

static void
give(const struct shared_answer *a)
{
	const uint64_t one = 1;

	while (other.has_next)
		usleep(WAIT_STEP_US);
	other.next = *a;
	other.has_next = true;
	assert_int_equal(write(other.fd, &one, sizeof(one)), sizeof(one));
	while (other.has_next)
		usleep(WAIT_STEP_US);
}

/** Wait until question @p i has been asked. */
static const struct question_seen *
question(unsigned int i)
{
	for (unsigned int t = 0; other.nb_asked <= i && t < SOON_MS; t++)
		usleep(WAIT_STEP_US);
	assert_true(other.nb_asked > i);
	return &other.asked[i];
}

/** @return the descriptor in the answer. */
static int
answer_open(const struct question_seen *q)
{
	struct shared_answer a = { .number = q->number, .dir = -1, .maps = -1, .n = q->n };

	assert_int_equal(q->n, 1);
	assert_true(a.number != 0);
	a.files[0] = (struct shared_file){ .fd = dup(memory_fd), .status = SHARED_OK, .page_bytes = PAGE };
	give(&a);
	return a.files[0].fd;
}

/** The daemon asks the test from now on. */
static void
take_over(void)
{
	struct control *c = daemon_control();

	other.gone = other.silent = false;
	other.has_next = false;
	other.nb_asked = 0;
	other.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	control_lock(c);
	questions_stop(c);
	c->shared = (struct shared_ops){
		.fd = other.fd, .ask_process = ask_process, .ask_open = ask_open, .answer = take_answer, .privileged = true
	};
	c->nb_asked = 0;
	assert_int_equal(questions_start(c), 0);
	control_unlock(c);
}

static void
begin(void)
{
	memory_fd = memfd_create("memory", MFD_CLOEXEC);
	assert_int_equal(ftruncate(memory_fd, PAGE), 0);
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
}

static int
setup(void **state)
{
	take_over();
	return 0;
}

static int
teardown(void **state)
{
	control_lock(daemon_control());
	questions_stop(daemon_control());
	control_unlock(daemon_control());
	close(other.fd);
	return daemon_wait_empty() ? 0 : -1;
}

static void
send_registration(int sock, uint32_t pd)
{
	const uint64_t va = (uintptr_t)memory;
	struct {
		struct ctl_req q;
		struct ctl_seg seg;
	} m = { .q = peer_req(CTL_MR_REG) };

	m.q.mr_reg = (struct ctl_mr_reg_req){
		.pd = pd, .access = UROCE_ACCESS_LOCAL_WRITE, .addr = va, .length = PAGE, .nb_segs = 1, .nb_in_msg = 1
	};
	m.seg = (struct ctl_seg){ .va = va, .length = PAGE, .kind = CTL_SEG_SHARED, .map_start = va, .map_end = va + PAGE };
	assert_int_equal(peer_send(sock, &m, sizeof(m), NULL, 0), 0);
}

/** @return the status of the reply. */
static int
reply(int sock, struct ctl_rsp *r)
{
	assert_true(peer_recv(sock, r, NULL, 0));
	return r->status;
}

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool
is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void
others_register_while_one_waits(void **state)
{
	struct peer hostile, victim;
	uint32_t pd, victims_pd;
	uint64_t since_ms, late;
	struct ctl_rsp r;
	int fd;

	peer_open(&hostile);
	peer_open(&victim);
	pd = peer_pd(hostile.sock);
	victims_pd = peer_pd(victim.sock);
	late = daemon_control()->unread_maps;
	since_ms = now_ms();
	send_registration(hostile.sock, pd);
	question(0);
	for (unsigned int i = 1; i <= 5; i++) {
		send_registration(victim.sock, victims_pd);
		answer_open(question(i));
		assert_int_equal(reply(victim.sock, &r), 0);
	}
	assert_true(now_ms() - since_ms < SOON_MS);
	/* The one that can't be looked at gets a clear error in time, and asks nothing more until the answer is there. */
	assert_int_equal(reply(hostile.sock, &r), EOPNOTSUPP);
	assert_non_null(strstr(r.message, "can't be read within"));
	assert_in_range(now_ms() - since_ms, QUESTION_MS - 10, QUESTION_MS + SOON_MS);
	assert_int_equal(daemon_control()->unread_maps, late + 1);
	send_registration(hostile.sock, pd);
	assert_int_equal(reply(hostile.sock, &r), EOPNOTSUPP);
	assert_int_equal(other.nb_asked, 6);
	/* A late answer is nobody's. */
	fd = answer_open(&other.asked[0]);
	send_registration(victim.sock, victims_pd);
	answer_open(question(6));
	assert_int_equal(reply(victim.sock, &r), 0);
	assert_false(is_open(fd));
	/* Now it can be asked again. */
	send_registration(hostile.sock, pd);
	answer_open(question(7));
	assert_int_equal(reply(hostile.sock, &r), 0);
	peer_close(&hostile);
	peer_close(&victim);
}

static void
a_user_has_only_some_questions_under_way(void **state)
{
	struct peer p[QUESTIONS_OF_USER + 2];
	uint32_t pd[QUESTIONS_OF_USER + 2];
	struct ctl_rsp r;
	unsigned int i;

	for (i = 0; i < QUESTIONS_OF_USER + 2; i++) {
		peer_open(&p[i]);
		pd[i] = peer_pd(p[i].sock);
	}
	for (i = 0; i < QUESTIONS_OF_USER + 2; i++)
		send_registration(p[i].sock, pd[i]);
	question(QUESTIONS_OF_USER - 1);
	usleep(100 * WAIT_STEP_US);
	assert_int_equal(other.nb_asked, QUESTIONS_OF_USER);
	/* An answer makes room for one that waits; the last one's time is over before there is room. */
	answer_open(&other.asked[3]);
	question(QUESTIONS_OF_USER);
	for (i = 0; i < QUESTIONS_OF_USER + 2; i++)
		if (reply(p[i].sock, &r) != 0)
			assert_int_equal(r.status, EOPNOTSUPP);
	assert_int_equal(other.nb_asked, QUESTIONS_OF_USER + 1);
	for (i = 0; i < QUESTIONS_OF_USER + 1; i++)
		if (i != 3)
			answer_open(&other.asked[i]);
	assert_int_equal(daemon_control()->nb_asked, 0);
	for (i = 0; i < QUESTIONS_OF_USER + 2; i++)
		peer_close(&p[i]);
}

static void
a_session_that_ends_leaves_its_answer_to_nobody(void **state)
{
	struct ctl_rsp r;
	struct peer p;
	int fd;

	peer_open(&p);
	send_registration(p.sock, peer_pd(p.sock));
	question(0);
	peer_close(&p);
	assert_true(daemon_wait_empty());
	assert_int_equal(daemon_control()->opening, 0);
	peer_open(&p);
	fd = answer_open(&other.asked[0]);
	send_registration(p.sock, peer_pd(p.sock));
	answer_open(question(1));
	assert_int_equal(reply(p.sock, &r), 0);
	assert_false(is_open(fd));
	peer_close(&p);
}

static void
a_program_whose_mappings_are_never_seen_is_served_without(void **state)
{
	uint64_t since_ms = now_ms();
	struct ctl_rsp r;
	struct peer p;

	other.silent = true;
	peer_open(&p);
	assert_in_range(now_ms() - since_ms, QUESTION_MS - 10, QUESTION_MS + SOON_MS);
	send_registration(p.sock, peer_pd(p.sock));
	assert_int_equal(reply(p.sock, &r), EOPNOTSUPP);
	assert_int_equal(other.nb_asked, 1);
	peer_close(&p);
}

static void
answers_that_nobody_asked_for_change_nothing(void **state)
{
	struct question_seen forged = { .number = UINT64_MAX, .n = 1 };
	struct shared_answer a;
	struct ctl_rsp r;
	struct peer p;
	uint32_t pd;

	peer_open(&p);
	pd = peer_pd(p.sock);
	answer_open(&forged);
	/* Files of another question, or none. */
	send_registration(p.sock, pd);
	a = (struct shared_answer){ .number = question(0)->number, .dir = -1, .maps = -1, .n = 0 };
	give(&a);
	assert_int_equal(reply(p.sock, &r), EOPNOTSUPP);
	send_registration(p.sock, pd);
	a = (struct shared_answer){ .number = question(1)->number, .dir = -1, .maps = -1, .rc = EMFILE };
	give(&a);
	assert_int_equal(reply(p.sock, &r), EOPNOTSUPP);
	send_registration(p.sock, pd);
	answer_open(question(2));
	assert_int_equal(reply(p.sock, &r), 0);
	peer_close(&p);
}

static void
without_anybody_to_ask_all_is_refused_at_once(void **state)
{
	const uint64_t one = 1;
	struct peer a, b;
	struct ctl_rsp r;

	peer_open(&a);
	peer_open(&b);
	send_registration(a.sock, peer_pd(a.sock));
	question(0);
	other.gone = true;
	assert_int_equal(write(other.fd, &one, sizeof(one)), sizeof(one));
	assert_int_equal(reply(a.sock, &r), EOPNOTSUPP);
	send_registration(b.sock, peer_pd(b.sock));
	assert_int_equal(reply(b.sock, &r), EOPNOTSUPP);
	peer_close(&a);
	peer_close(&b);
	peer_open(&a);
	peer_close(&a);
}

#define QUESTION_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		QUESTION_TEST(others_register_while_one_waits),
		QUESTION_TEST(a_user_has_only_some_questions_under_way),
		QUESTION_TEST(a_session_that_ends_leaves_its_answer_to_nobody),
		QUESTION_TEST(a_program_whose_mappings_are_never_seen_is_served_without),
		QUESTION_TEST(answers_that_nobody_asked_for_change_nothing),
		QUESTION_TEST(without_anybody_to_ask_all_is_refused_at_once),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return DAEMON_TESTS(tests, MAX_SESSIONS, MAX_QP, begin);
}
