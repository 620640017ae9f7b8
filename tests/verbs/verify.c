/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verify: is what arrives what was sent?
 *
 *   verify [OPTIONS]          one end
 *   verify [OPTIONS] HOST     the other one
 *
 * SIGUSR1 at either end ends both after the round that they are in.
 *
 * Both ends post WRITEs, WRITEs with immediate, SENDs, READs and atomics on several RC QPs at once, of many sizes, from and
 * to odd addresses, and check every byte: what arrives and what must not change, completions, their order, lengths and
 * immediates, what atomics return and their sums. It needs libibverbs and nothing else. Status 0: everything was right.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "verify.h"

struct options o = { .gid_index = 1, .port = 18515, .timeout = 14, .qps = 4, .rounds = 8, .mtu = IBV_MTU_1024, .seed = 1 };

static int sock;
static volatile sig_atomic_t told_to_end;

/* ---- The other end ---- */
static void
meet(const char *host)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE, .ai_family = AF_INET }, *ai;
	char port[8];
	int rc, one = 1, listener;

	snprintf(port, sizeof(port), "%d", o.port);
	rc = getaddrinfo(host, port, &hints, &ai);
	if (rc != 0)
		DIE("%s: %s", host, gai_strerror(rc));
	MUST((sock = socket(ai->ai_family, ai->ai_socktype, 0)) >= 0);
	if (host != NULL) {
		for (int tries = 0; connect(sock, ai->ai_addr, ai->ai_addrlen) != 0; tries++) {
			MUST(tries < 100);
			usleep(50000);
		}
	} else {
		listener = sock;
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		MUST(bind(listener, ai->ai_addr, ai->ai_addrlen) == 0 && listen(listener, 1) == 0);
		MUST((sock = accept(listener, NULL, NULL)) >= 0);
		close(listener);
	}
	freeaddrinfo(ai);
}

void
exchange(const void *mine, void *theirs, size_t n)
{
	MUST(send(sock, mine, n, MSG_NOSIGNAL) == (ssize_t)n);
	if (recv(sock, theirs, n, MSG_WAITALL) != (ssize_t)n)
		DIE("the other end is gone");
}

static void
on_end(int number)
{
	(void)number;
	told_to_end = 1;
}

/* @return whether one of the two ends was told to end before it came here: the same at both. */
bool
barrier(void)
{
	const char mine = (char)told_to_end;
	char theirs;

	exchange(&mine, &theirs, 1);
	return mine != 0 || theirs != 0;
}

/* ---- A round ---- */
static void
begin_round(struct conn *c)
{
	struct gen ahead = c->theirs;

	c->round_end += OPS;
	while (ahead.number < c->round_end) {
		struct op op = gen_next(&ahead);

		c->receives_due += op_takes_receive(&op);
	}
}

/* Post what there is room for. @return true: everything of this round has been posted, is complete and has arrived. */
static bool
advance(struct conn *c)
{
	while (c->posted < c->round_end && c->posted - c->complete < DEPTH)
		post_op(c);
	return c->complete == c->round_end && c->received == c->receives_due;
}

static void
run_round(void)
{
	time_t last = time(NULL);
	struct ibv_wc wc[POLL];
	bool done = false;
	int n;

	for (unsigned int i = 0; i < o.qps; i++)
		begin_round(&conns[i]);
	while (!done) {
		done = true;
		for (unsigned int i = 0; i < o.qps; i++)
			done &= advance(&conns[i]);
		n = ibv_poll_cq(cq, POLL, wc);
		MUST(n >= 0);
		for (int i = 0; i < n; i++)
			take(&wc[i]);
		if (n > 0)
			last = time(NULL);
		else
			sched_yield();
		for (unsigned int i = 0; i < o.qps && time(NULL) - last > IDLE_SECONDS; i++)
			if (!advance(&conns[i]))
				DIE("QP %u: nothing happens: %u operations posted, %u complete, %u of %u received",
				    conns[i].index, conns[i].posted, conns[i].complete, conns[i].received,
				    conns[i].receives_due);
	}
}

static const char usage[] =
	"verify [-d DEVICE] [-x GID_INDEX] [-p TCP_PORT] [-q QPS] [-n ROUNDS] [-m MTU] [-s SEED] [-u TIMEOUT] [HOST]\n"
	"  Two of them, the second with the first one's HOST, the same options: each checks what arrives.\n"
	"  SIGUSR1 at either end: both end after the round that they are in.\n";

static unsigned long
number(const char *option, const char *text, unsigned long min, unsigned long max)
{
	char *end;
	unsigned long v = strtoul(text, &end, 0);

	if (*text == '\0' || *end != '\0' || v < min || v > max)
		DIE("-%s %s: must be a number from %lu to %lu", option, text, min, max);
	return v;
}

static const char *
options(int argc, char **argv)
{
	unsigned long bytes_of_mtu;
	int opt;

	while ((opt = getopt(argc, argv, "d:x:p:q:n:m:s:u:h")) != -1) {
		switch (opt) {
		case 'd': o.device = optarg; break;
		case 'x': o.gid_index = (int)number("x", optarg, 0, 255); break;
		case 'p': o.port = (int)number("p", optarg, 1, 65535); break;
		case 'q': o.qps = (unsigned int)number("q", optarg, 1, MAX_QPS); break;
		case 'n': o.rounds = (unsigned int)number("n", optarg, 1, 100000); break;
		case 's': o.seed = number("s", optarg, 0, UINT32_MAX); break;
		case 'u': o.timeout = (int)number("u", optarg, 1, 31); break;
		case 'm':
			bytes_of_mtu = number("m", optarg, 256, 4096);
			for (o.mtu = IBV_MTU_256; 128ul << o.mtu < bytes_of_mtu; o.mtu++)
				;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	return argv[optind];
}

int
main(int argc, char **argv)
{
	const char *host = options(argc, argv);
	bool ends = false;

	signal(SIGUSR1, on_end);
	setvbuf(stdout, NULL, _IOLBF, 0);
	o.end = host != NULL;
	meet(host);
	set_up();
	for (unsigned int round = 0; round < o.rounds && !ends; round++) {
		run_round();
		barrier(); /* theirs has arrived as well */
		check_memory();
		ends = barrier(); /* nobody writes while somebody looks */
	}
	check_sources();
	tear_down();
	printf("verify: %lu operations of %u QPs were right, %lu bytes compared\n", (unsigned long)operations, o.qps,
	       (unsigned long)bytes);
	return 0;
}
