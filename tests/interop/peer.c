/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer lead DEVICE IPV4 IPV6 PORT CELLS     tries each cell of a file (- for standard input) with who connects to PORT
 * peer follow DEVICE IPV4 IPV6 ADDRESS PORT
 *
 * Per cell the leader prints its line, a tab, the milliseconds it took, a tab, and "ok" or what was wrong. Status 1:
 * something was. The words of a cell: kind=NAME (peer_kinds.c) size=BYTES mtu=BYTES ip=4|6 from=leader|follower count=N psn=N
 * timeout=N retry=N rnr=N pause=MS tclass=N flow=N want=STATUS peer=STATUS (numbers of enum ibv_wc_status)
 * inv=FLAG (of enum ibv_wc_flags).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peer.h"

#define FIRST_VALUE UINT64_C(0x0123456789abcdef)

void
problem(struct side *s, const char *format, ...)
{
	va_list args;

	if (s->problem[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(s->problem, sizeof(s->problem), format, args);
	va_end(args);
}

/* ---- Cells ---- */
static const struct kind *
find_kind(const char *name)
{
	for (const struct kind *k = kinds; k->name != NULL; k++)
		if (strcmp(k->name, name) == 0)
			return k;
	return NULL;
}

static enum ibv_mtu
mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 128u << mtu < bytes)
		mtu++;
	return mtu;
}

static bool
set_word(struct cell *c, const char *key, const char *value)
{
	const struct {
		const char *key;
		uint32_t *number;
	} numbers[] = {
		{ "size", &c->size }, { "count", &c->count }, { "psn", &c->psn }, { "ip", &c->family },
		{ "timeout", &c->timeout }, { "retry", &c->retry }, { "rnr", &c->rnr_retry }, { "pause", &c->pause_ms },
		{ "tclass", &c->traffic_class }, { "flow", &c->flow_label }, { "inv", &c->inv_flag },
	};
	uint32_t n = (uint32_t)strtoul(value, NULL, 0);

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(key, numbers[i].key) == 0) {
			*numbers[i].number = n;
			return true;
		}
	if (strcmp(key, "kind") == 0)
		c->kind = find_kind(value);
	else if (strcmp(key, "mtu") == 0)
		c->mtu = mtu_of(n);
	else if (strcmp(key, "from") == 0)
		c->leader_requests = strcmp(value, "leader") == 0;
	else if (strcmp(key, "want") == 0)
		c->want = (enum ibv_wc_status)n;
	else if (strcmp(key, "peer") == 0)
		c->peer_want = (enum ibv_wc_status)n;
	else
		return false;
	return true;
}

static bool
cell_parse(struct cell *c, const char *text)
{
	char line[TEXT_BYTES], *word, *save;

	*c = (struct cell){ .mtu = IBV_MTU_1024, .family = 4, .count = 1, .timeout = 18, .retry = 7, .rnr_retry = 7,
			    .inv_flag = IBV_WC_WITH_INV };
	snprintf(line, sizeof(line), "%s", text);
	for (word = strtok_r(line, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');

		if (value == NULL)
			return false;
		*value++ = '\0';
		if (!set_word(c, word, value))
			return false;
	}
	return c->kind != NULL && c->count <= DEPTH &&
	       (uint64_t)c->count * (c->size + GRH_BYTES + 2 * GUARD_BYTES) <= AREA_BYTES;
}

/* ---- A cell, both sides ---- */
static void
tell(struct side *s)
{
	tcp_put(s, &s->mine, sizeof(s->mine));
	tcp_get(s, &s->theirs, sizeof(s->theirs));
}

static void
prepare_memory(struct side *s)
{
	const struct kind *k = s->cell.kind;
	uint64_t first = FIRST_VALUE;
	bool atomic = k->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || k->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	memset(s->in, GUARD_BYTE, AREA_BYTES);
	if (!s->requester && atomic && k->addr_xor == 0 && k->rkey_xor == 0)
		memcpy(s->in, &first, sizeof(first));
	if (!s->requester && k->opcode == IBV_WR_RDMA_READ)
		for (uint32_t i = 0; i < s->cell.count; i++)
			pattern(out_message(s, i), s->cell.size, i);
}

static void
post_receives(struct side *s)
{
	const struct kind *k = s->cell.kind;
	uint32_t len = s->cell.size + (k->type == IBV_QPT_UD ? GRH_BYTES : 0) - (uint32_t)k->short_by;

	if (k->receives && (!s->requester || k->request == k->receive))
		for (uint32_t i = 0; i < s->cell.count; i++)
			post_recv(s, i, len);
}

static bool
cell_up(struct side *s)
{
	bool ok = cell_objects(s);

	if (ok)
		post_receives(s);
	tell(s);
	ok = ok && cell_connect(s);
	if (ok && s->cell.kind->window && !s->requester)
		bind_window(s);
	tell(s);
	return ok;
}

/* Both sides know after each step whether the other one is well: nobody waits for what won't come. */
static bool
both(struct side *s, bool ok)
{
	uint8_t mine = ok && s->problem[0] == '\0', theirs;

	tcp_put(s, &mine, 1);
	tcp_get(s, &theirs, 1);
	return mine && theirs;
}

static void
run_cell(struct side *s)
{
	const struct kind *k = s->cell.kind;

	s->requester = s->cell.leader_requests == s->leader;
	prepare_memory(s);
	if (both(s, cell_up(s))) {
		if (s->requester)
			k->request(s);
		else if (k->receive != NULL)
			k->receive(s);
		barrier(s);
		if (!s->requester && k->verify != NULL)
			k->verify(s);
	}
	barrier(s);
	cell_destroy(s);
}

/* ---- The two sides ---- */
static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void
follow(struct side *s)
{
	char text[TEXT_BYTES];

	for (;;) {
		tcp_get(s, text, sizeof(text));
		if (text[0] == '\0')
			return;
		s->problem[0] = '\0';
		if (!cell_parse(&s->cell, text)) {
			fprintf(stderr, "peer: not a cell: %s\n", text);
			exit(1);
		}
		run_cell(s);
		tcp_put(s, s->problem, sizeof(s->problem));
	}
}

static int
lead(struct side *s, FILE *f)
{
	char text[TEXT_BYTES], theirs[TEXT_BYTES];
	int status = 0;

	while (memset(text, 0, sizeof(text)), fgets(text, sizeof(text), f) != NULL) {
		int64_t began = now_ms();

		text[strcspn(text, "\n")] = '\0';
		s->problem[0] = '\0';
		if (!cell_parse(&s->cell, text)) {
			fprintf(stderr, "peer: not a cell: %s\n", text);
			return 1;
		}
		tcp_put(s, text, sizeof(text));
		run_cell(s);
		tcp_get(s, theirs, sizeof(theirs));
		printf("%s\t%ld\t", text, (long)(now_ms() - began));
		if (s->problem[0] != '\0' || theirs[0] != '\0')
			status = 1;
		if (s->problem[0] != '\0')
			printf("leader: %s", s->problem);
		if (theirs[0] != '\0')
			printf("%sfollower: %s", s->problem[0] != '\0' ? "; " : "", theirs);
		printf("%s\n", s->problem[0] == '\0' && theirs[0] == '\0' ? "ok" : "");
		fflush(stdout);
	}
	tcp_put(s, text, sizeof(text));
	return status;
}

int
main(int argc, char **argv)
{
	struct side s = { .sock = -1, .group_sock = -1 };
	FILE *f;

	if (argc != 7 || (strcmp(argv[1], "lead") != 0 && strcmp(argv[1], "follow") != 0)) {
		fprintf(stderr, "usage: peer lead DEVICE IPV4 IPV6 PORT CELLS | peer follow DEVICE IPV4 IPV6 ADDRESS PORT\n");
		return 2;
	}
	device_open(&s, argv[2], argv[3], argv[4]);
	s.leader = strcmp(argv[1], "lead") == 0;
	if (!s.leader) {
		s.sock = tcp_connect_to(argv[5], atoi(argv[6]));
		follow(&s);
		return 0;
	}
	f = strcmp(argv[6], "-") == 0 ? stdin : fopen(argv[6], "r");
	if (f == NULL) {
		fprintf(stderr, "peer: %s: %s\n", argv[6], strerror(errno));
		return 1;
	}
	s.sock = tcp_listen_one(atoi(argv[5]));
	return lead(&s, f);
}
