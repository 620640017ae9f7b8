/* SPDX-License-Identifier: BSD-3-Clause */
/* The program uroced itself: what it says to mistakes, when its socket is there, and how it ends. */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BLANK '~' /* in arguments of start(): a blank that doesn't part them */

enum { MAX_ARGS = 32, MAX_OUTPUT = 16384, START_SECONDS = 30 };

static const char *uroced;
static char folder[] = "/tmp/uroce-test-XXXXXX";
static char sock_path[64];

struct run {
	pid_t pid;
	int fd; /**< its standard output and error */
	char out[MAX_OUTPUT];
	size_t n;
};

/** Start uroced with arguments that blanks part; one with blanks may stand in @p last. */
static void
start(struct run *r, const char *args, const char *last)
{
	static char text[1024];
	char *argv[MAX_ARGS] = { (char *)(uintptr_t)uroced }, *rest = text, *word;
	int pipefd[2], n = 1;

	snprintf(text, sizeof(text), "%s", args);
	while ((word = strsep(&rest, " ")) != NULL) {
		argv[n++] = word;
		for (char *c = word; *c != '\0'; c++)
			if (*c == BLANK)
				*c = ' ';
	}
	if (last != NULL)
		argv[n++] = (char *)(uintptr_t)last;
	memset(r, 0, sizeof(*r));
	assert_int_equal(pipe2(pipefd, O_CLOEXEC), 0);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		dup2(pipefd[1], 1);
		dup2(pipefd[1], 2);
		execv(uroced, argv);
		_exit(127);
	}
	close(pipefd[1]);
	r->fd = pipefd[0];
}

/** Read its output until @p text has come or it ends. @return true if the text came. */
static bool
expect(struct run *r, const char *text)
{
	struct pollfd p = { .fd = r->fd, .events = POLLIN };
	ssize_t n;

	while (text == NULL || strstr(r->out, text) == NULL) {
		if (poll(&p, 1, START_SECONDS * 1000) <= 0)
			return false;
		n = read(r->fd, r->out + r->n, sizeof(r->out) - 1 - r->n);
		if (n <= 0)
			return false;
		r->n += (size_t)n;
	}
	return true;
}

/** @return its exit status, -signal if it was killed. */
static int
finish(struct run *r)
{
	int status;

	expect(r, NULL);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	close(r->fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/** The usual daemon at @p path. */
static void
start_daemon(struct run *r, const char *path)
{
	char args[512];

	snprintf(args, sizeof(args),
		 "--lcores 0@0,1@0 --no-huge -m 128 --no-pci --no-telemetry --log-level error --file-prefix "
		 "uroce-test-%d "
		 "--vdev net_ring0 -- --socket %s --set",
		 (int)getpid(), path);
	start(r, args, "port uroce0.ethdev=net_ring0");
}

static bool
can_connect(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool ok;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	ok = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0;
	close(fd);
	return ok;
}

static bool
folder_empty(void)
{
	/* An empty folder, and only that, can be removed. */
	return rmdir(folder) == 0 && mkdir(folder, 0700) == 0;
}

static void
mistakes_on_the_command_line_are_named(void **state)
{
	static const struct {
		const char *args, *last;
		int status;
		const char *says;
	} cases[] = {
		{ "--help", NULL, 0, "--config FILE" },
		{ "-- --help", NULL, 0, "--config FILE" },
		{ "--version", NULL, 0, "uroced " },
		{ "-l 0-1", NULL, 2, "without a configuration" },
		{ "--config x.conf", NULL, 2, "behind a --" },
		{ "-- --confg x", NULL, 2, "unknown option --confg" },
		{ "-- --config", NULL, 2, "needs a value" },
		{ "-- stray", NULL, 2, "'stray'" },
		{ "-- --config a --config b", NULL, 2, "a: cannot read" },
		{ "-- --config 1 --config 2 --config 3 --config 4 --config 5 --config 6 --config 7 --config 8 --config 9", NULL, 2,
		  "too many --config, the first too many is 9" },
		{ "-- --config /nonexistent.conf", NULL, 2, "/nonexistent.conf" },
		{ "-- --check --set", "port uroce0.ethdev=net_null0", 0, "configuration is good" },
		{ "-- --check --set", "port uroce0.addresses=1.2.3.4/24", 2, "no ethdev" },
		{ "-- --check --set", "port uroce0.mtu=77777", 2, "576 to 9600" },
		{ "--vdev net_impair0,port=net_null0,loss=0.01 -- --check --set", "port uroce0.ethdev=net_null0", 0,
		  "configuration is good" },
		{ "--vdev net_impair0,port=net_null0,loss=7 -- --check --set", "port uroce0.ethdev=net_null0", 2,
		  "--vdev net_impair0: impair: loss=7: must be a number from 0 to 1" },
		{ "--vdev net_impair0,port=net_null1,loss=0.01 -- --check --set", "port uroce0.ethdev=net_null0", 2,
		  "port=net_null1: no port of the configuration has this ethdev; there are: net_null0" },
		{ "--vdev net_impair0,loss=0.01 -- --check --set", "port uroce0.ethdev=net_null0", 2, "port= is missing" },
		{ "--vdev net_impair0,port=net_null0,loss=0.01 -- --check --set port~uroce0.impair=dup=1 --set",
		  "port uroce0.ethdev=net_null0", 2, "given twice" },
		{ "-- --socket /nonexistent/x.sock --set", "port uroce0.ethdev=net_null0", 1, "mkdir -p /nonexistent" },
	};
	struct run r;
	size_t i;
	int rc;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start(&r, cases[i].args, cases[i].last);
		rc = finish(&r);
		if (rc != cases[i].status || strstr(r.out, cases[i].says) == NULL)
			fail_msg("uroced %s %s: status %d, '%s'", cases[i].args, cases[i].last ? cases[i].last : "", rc,
				 r.out);
	}
}

static void
a_machine_without_a_core_for_an_engine_or_the_port_is_told_what_to_do(void **state)
{
	char args[512];
	struct run r;

	snprintf(args, sizeof(args),
		 "-l 0 --no-huge -m 64 --no-pci --no-telemetry --file-prefix uroce-test-%d -- --socket %s --set",
		 (int)getpid(), sock_path);
	start(&r, args, "port uroce0.ethdev=net_ring0");
	assert_int_equal(finish(&r), 1);
	assert_non_null(strstr(r.out, "--lcores '0@0,1@0'"));
	assert_true(folder_empty());
	snprintf(args, sizeof(args),
		 "--lcores 0@0,1@0 --no-huge -m 128 --no-pci --no-telemetry --file-prefix uroce-test-%d -- --socket %s "
		 "--set",
		 (int)getpid(), sock_path);
	start(&r, args, "port uroce0.ethdev=net_nothing");
	assert_int_equal(finish(&r), 1);
	assert_non_null(strstr(r.out, "net_nothing"));
	assert_true(folder_empty());
	snprintf(args, sizeof(args),
		 "--lcores 0@0,1@0 --no-huge -m 128 --no-pci --no-telemetry --vdev net_af_packet0,iface=eth77 --file-prefix uroce-test-%d -- --socket %s "
		 "--set",
		 (int)getpid(), sock_path);
	start(&r, args, "port uroce0.ethdev=net_af_packet0");
	assert_int_equal(finish(&r), 1);
	assert_non_null(strstr(r.out, "there is no interface eth77, which --vdev net_af_packet0,iface=eth77 names"));
	assert_true(folder_empty());
	/* Too little memory for the packets. */
	snprintf(args, sizeof(args),
		 "--lcores 0@0,1@0 --no-huge -m 64 --no-pci --no-telemetry --file-prefix uroce-test-%d -- --socket %s "
		 "--set "
		 "daemon.mbufs=100000 --set",
		 (int)getpid(), sock_path);
	start(&r, args, "port uroce0.ethdev=net_nothing");
	assert_int_equal(finish(&r), 1);
	assert_non_null(strstr(r.out, "nr_hugepages"));
	assert_true(folder_empty());
}

static void
the_socket_is_there_from_ready_to_the_signal(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT };
	struct run r;
	struct stat st;
	int i;

	for (i = 0; i < 2; i++) {
		start_daemon(&r, sock_path);
		assert_true(expect(&r, "uroced: ready, socket "));
		assert_int_equal(stat(sock_path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0660);
		/* It says who may use it, unless that is clear. */
		if (getgrnam("uroce") == NULL)
			assert_non_null(strstr(r.out, "there is no group uroce: only user"));
		else if (geteuid() == 0)
			assert_int_equal(st.st_gid, getgrnam("uroce")->gr_gid);
		assert_true(can_connect(sock_path));
		kill(r.pid, signals[i]);
		assert_int_equal(finish(&r), 0);
		assert_true(folder_empty());
	}
}

/** What a service manager has listening at $NOTIFY_SOCKET. @return its descriptor. */
static int
listen_for_notes(struct sockaddr_un *sa)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(sa->sun_path, sizeof(sa->sun_path), "%s/notify", folder);
	assert_int_equal(bind(fd, (struct sockaddr *)sa, sizeof(*sa)), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", sa->sun_path, 1), 0);
	return fd;
}

/** @return true if @p text comes next, within @p ms. */
static bool
note_comes(int fd, const char *text, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char got[64] = "";

	return poll(&p, 1, ms) == 1 && recv(fd, got, sizeof(got) - 1, 0) == (ssize_t)strlen(text) && strcmp(got, text) == 0;
}

/** @return a thread of the daemon that runs an engine. */
static pid_t
engine_thread(pid_t pid)
{
	char path[64], name[32];
	struct dirent *d;
	pid_t found = 0;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((d = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, atoi(d->d_name));
		f = fopen(path, "re");
		if (f != NULL && fgets(name, sizeof(name), f) != NULL && strstr(name, "worker") != NULL)
			found = atoi(d->d_name);
		if (f != NULL)
			fclose(f);
	}
	closedir(dir);
	return found;
}

static void
the_watchdog_is_fed_while_control_thread_and_engines_are_alive(void **state)
{
	enum { DEADLINE_MS = 1500, LONG_MS = 10000 };
	struct sockaddr_un sa;
	int fd = listen_for_notes(&sa), status;
	struct run r;
	pid_t engine;

	assert_int_equal(setenv("WATCHDOG_USEC", "1500000", 1), 0);
	start_daemon(&r, sock_path);
	assert_true(note_comes(fd, "READY=1", START_SECONDS * 1000));
	for (int i = 0; i < 3; i++)
		assert_true(note_comes(fd, "WATCHDOG=1", LONG_MS));
	/* An engine that hangs. Not everybody may stop a thread. */
	engine = engine_thread(r.pid);
	if (ptrace(PTRACE_SEIZE, engine, NULL, NULL) == 0) {
		assert_int_equal(ptrace(PTRACE_INTERRUPT, engine, NULL, NULL), 0);
		assert_int_equal(waitpid(engine, &status, __WALL), engine);
		/* One may have been under way. */
		note_comes(fd, "WATCHDOG=1", DEADLINE_MS);
		assert_false(note_comes(fd, "WATCHDOG=1", DEADLINE_MS));
		assert_int_equal(ptrace(PTRACE_DETACH, engine, NULL, NULL), 0);
		assert_true(note_comes(fd, "WATCHDOG=1", LONG_MS));
	}
	kill(r.pid, SIGTERM);
	assert_int_equal(finish(&r), 0);
	/* Somebody else's watchdog. */
	while (note_comes(fd, "WATCHDOG=1", 0))
		;
	assert_int_equal(setenv("WATCHDOG_PID", "1", 1), 0);
	start_daemon(&r, sock_path);
	assert_true(note_comes(fd, "READY=1", START_SECONDS * 1000));
	assert_false(note_comes(fd, "WATCHDOG=1", DEADLINE_MS));
	kill(r.pid, SIGTERM);
	assert_int_equal(finish(&r), 0);
	close(fd);
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(unlink(sa.sun_path), 0);
	assert_true(folder_empty());
}

static void
who_started_it_is_told_when_it_is_ready(void **state)
{
	struct sockaddr_un sa;
	int fd = listen_for_notes(&sa);
	struct run r;

	start_daemon(&r, sock_path);
	assert_true(note_comes(fd, "READY=1", START_SECONDS * 1000));
	assert_true(can_connect(sock_path));
	kill(r.pid, SIGTERM);
	assert_int_equal(finish(&r), 0);
	/* Nobody there any more: the daemon starts all the same. */
	close(fd);
	start_daemon(&r, sock_path);
	assert_true(expect(&r, "ready"));
	kill(r.pid, SIGTERM);
	assert_int_equal(finish(&r), 0);
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	assert_int_equal(unlink(sa.sun_path), 0);
	assert_true(folder_empty());
}

static void
a_second_daemon_is_turned_away_and_the_first_goes_on(void **state)
{
	struct run a, b;

	start_daemon(&a, sock_path);
	assert_true(expect(&a, "ready"));
	start_daemon(&b, sock_path);
	assert_int_equal(finish(&b), 1);
	assert_non_null(strstr(b.out, "already in use by a running uroced"));
	assert_true(can_connect(sock_path));
	kill(a.pid, SIGTERM);
	assert_int_equal(finish(&a), 0);
	assert_true(folder_empty());
}

static void
a_stale_socket_is_replaced_and_anything_else_is_left_alone(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct run r;
	int fd;

	/* As a daemon leaves it that is killed together with its broker, if it has one. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", sock_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	close(fd);
	assert_false(can_connect(sock_path));
	start_daemon(&r, sock_path);
	assert_true(expect(&r, "ready"));
	assert_true(can_connect(sock_path));
	kill(r.pid, SIGTERM);
	assert_int_equal(finish(&r), 0);
	fd = open(sock_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	start_daemon(&r, sock_path);
	assert_int_equal(finish(&r), 1);
	assert_non_null(strstr(r.out, "no socket"));
	assert_int_equal(unlink(sock_path), 0);
	assert_true(folder_empty());
}

static void
a_daemon_of_root_that_is_killed_leaves_nothing(void **state)
{
	struct run r;

	if (geteuid() != 0)
		skip();
	start_daemon(&r, sock_path);
	assert_true(expect(&r, "ready"));
	kill(r.pid, SIGKILL);
	assert_int_equal(finish(&r), -SIGKILL);
	for (int i = 0; i < 1000 && !folder_empty(); i++)
		usleep(10000);
	assert_true(folder_empty());
}

/** Write the configuration of a daemon with one port and @p keys in its section. */
static void
write_conf(const char *path, const char *keys)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fprintf(f, "[daemon]\nsocket = %s\n[port uroce0]\nethdev = net_ring0\n%s", sock_path, keys);
	assert_int_equal(fclose(f), 0);
}

/** Write it, tell the daemon, wait for what it says. */
static void
reload(struct run *r, const char *path, const char *keys, const char *says)
{
	write_conf(path, keys);
	memset(r->out, 0, sizeof(r->out));
	r->n = 0;
	assert_int_equal(kill(r->pid, SIGHUP), 0);
	if (!expect(r, says))
		fail_msg("expected '%s', the daemon said '%s'", says, r->out);
}

static void
sighup_changes_what_can_change_and_a_mistake_changes_nothing(void **state)
{
	char args[512], conf[64];
	struct run r;

	snprintf(conf, sizeof(conf), "%s/uroced.conf", folder);
	write_conf(conf, "");
	snprintf(args, sizeof(args),
		 "--lcores 0@0,1@0 --no-huge -m 128 --no-pci --no-telemetry --file-prefix uroce-test-%d "
		 "--vdev net_ring0 -- --config",
		 (int)getpid());
	start(&r, args, conf);
	assert_true(expect(&r, "uroced: ready, socket "));
	/* On, other settings, off: engines run all the time. */
	reload(&r, conf, "impair = loss=0.01\n", "[port uroce0] impair has changed");
	assert_true(expect(&r, "configuration read again: 1 key changed"));
	reload(&r, conf, "impair = dup=1,rule=drop/psn=1-2\ncc = dcqcn\n", "configuration read again: 2 keys changed");
	reload(&r, conf, "impair = dup=1,rule=drop/psn=1-2\ncc = dcqcn\n", "configuration read again: 0 keys changed");
	/* A mistake behind a change: the change isn't made either. */
	reload(&r, conf, "cc = swift\nimpair = loss=2\n",
	       "uroced.conf:6: [port uroce0] impair = loss=2: impair: loss=2: must be a number from 0 to 1");
	assert_null(strstr(r.out, "cc has changed"));
	reload(&r, conf, "cc = dcqcn\nmtu = 1000\n", "[port uroce0] impair has changed");
	assert_true(expect(&r, "uroced is started anew, not before: [port uroce0] mtu"));
	reload(&r, conf, "[port uroce1]\nethdev = net_ring1\n", "not before: [port uroce1]");
	assert_true(can_connect(sock_path));
	kill(r.pid, SIGTERM);
	assert_int_equal(finish(&r), 0);
	assert_int_equal(unlink(conf), 0);
	assert_true(folder_empty());
	/* Without a file there is nothing to read. */
	start_daemon(&r, sock_path);
	assert_true(expect(&r, "ready"));
	kill(r.pid, SIGHUP);
	usleep(100000);
	assert_true(can_connect(sock_path));
	kill(r.pid, SIGTERM);
	assert_int_equal(finish(&r), 0);
}

static int
setup(void **state)
{
	if (mkdtemp(folder) == NULL)
		return -1;
	snprintf(sock_path, sizeof(sock_path), "%s/uroced.sock", folder);
	return 0;
}

static int
teardown(void **state)
{
	return rmdir(folder);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_on_the_command_line_are_named),
		cmocka_unit_test(a_machine_without_a_core_for_an_engine_or_the_port_is_told_what_to_do),
		cmocka_unit_test(the_socket_is_there_from_ready_to_the_signal),
		cmocka_unit_test(who_started_it_is_told_when_it_is_ready),
		cmocka_unit_test(the_watchdog_is_fed_while_control_thread_and_engines_are_alive),
		cmocka_unit_test(a_second_daemon_is_turned_away_and_the_first_goes_on),
		cmocka_unit_test(sighup_changes_what_can_change_and_a_mistake_changes_nothing),
		cmocka_unit_test(a_stale_socket_is_replaced_and_anything_else_is_left_alone),
		cmocka_unit_test(a_daemon_of_root_that_is_killed_leaves_nothing),
	};

	if (argc != 2)
		return 2;
	uroced = argv[1];
	return cmocka_run_group_tests(tests, setup, teardown);
}
