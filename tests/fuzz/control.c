/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/control: requests of up to three programs, with descriptors, well-formed and not, in any order; programs that end in the
 * middle; frames and time in between. The daemon is the real one (daemon.h). A request's fields are the input's bytes;
 * fields that are handles become those of objects that there are, mostly.
 */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon.h"
#include "wire/wire.h"

enum op { OP_OPEN, OP_OPEN_CM, OP_CONNECT, OP_END, OP_REQUEST, OP_RAW, OP_REG, OP_WAIT, OP_FRAME, OP_TURNS, OP_READ, OP_RING, OPS };

enum {
	FDS = 8,
	AREA_PAGES = 16,
	PAGE = 4096,
	SEGS_MAX = 6,
	RAW_MAX = CTL_REQ_BYTES + SEGS_MAX * sizeof(struct ctl_seg),
};

static struct daemon_client clients[DAEMON_SESSIONS];
static int fds[FDS];
static uint8_t *shared_area, *private_area;

/** One of each kind that somebody may send. */
static void
make_fds(void)
{
	int pipe_fds[2];

	FUZZ_CHECK(pipe2(pipe_fds, O_NONBLOCK | O_CLOEXEC) == 0);
	fds[0] = pipe_fds[1];
	fds[1] = pipe_fds[0];
	fds[2] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	fds[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[4] = memfd_create("fuzz", MFD_CLOEXEC);
	fds[5] = eventfd(0, EFD_CLOEXEC);
	fds[6] = open("/", O_PATH | O_CLOEXEC);
	FUZZ_CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
	fds[7] = pipe_fds[1];
	for (unsigned int i = 0; i < FDS; i++)
		FUZZ_CHECK(fds[i] >= 0);
	FUZZ_CHECK(ftruncate(fds[4], AREA_PAGES * PAGE) == 0);
	shared_area = mmap(NULL, AREA_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[4], 0);
	private_area = mmap(NULL, AREA_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(shared_area != MAP_FAILED && private_area != MAP_FAILED);
}

/** @return how many descriptors go with a request: mostly none, or the first few of the input. */
static unsigned int
choose_fds(struct fuzz_in *in, int *out)
{
	uint8_t n = fuzz_u8(in);
	unsigned int count = n < 128 ? n % 2 : n % 10;

	for (unsigned int i = 0; i < count; i++)
		out[i] = fds[(i == 0 ? n / 2 % 8 : fuzz_u8(in)) % FDS];
	return count;
}

static void
request(struct daemon_client *c, struct fuzz_in *in)
{
	const struct request_shape *shape = &request_shapes[fuzz_u8(in) % REQUEST_SHAPES];
	struct ctl_req q = client_req(shape->op);
	int send[16];
	unsigned int n = choose_fds(in, send);

	fuzz_bytes(in, q.space, sizeof(q.space));
	for (unsigned int i = 0; i < shape->n; i++)
		request_put_handle(&c->handles, &q, shape->ref[i].at, shape->ref[i].kind);
	if (q.op == CTL_HELLO && q.hello.abi_version < REQUEST_HANDLE_ANY)
		q.hello.abi_version = UROCE_ABI_VERSION;
	client_call(c, &q, sizeof(q), send, n);
}

/** Of any size. */
static void
raw(struct daemon_client *c, struct fuzz_in *in)
{
	uint8_t bytes[RAW_MAX];
	int send[16];
	unsigned int n = choose_fds(in, send);
	uint32_t magic = CTL_MAGIC;
	size_t size = fuzz_left(in) < sizeof(bytes) - 4 ? fuzz_left(in) : sizeof(bytes) - 4;

	memcpy(bytes, &magic, sizeof(magic));
	memcpy(bytes + 4, in->at, size);
	client_call(c, bytes, size + 4, send, n);
}

/** Segments that cover memory of ours, or nearly. */
static void
put_segs(struct ctl_seg *segs, uint32_t n, uint64_t va, struct fuzz_in *in)
{
	for (uint32_t i = 0; i < n; i++) {
		uint8_t kind = fuzz_u8(in), odd = fuzz_u8(in);

		segs[i] = (struct ctl_seg){ .va = va, .length = (uint64_t)PAGE << kind / 8 % 3, .kind = kind % 6,
					    .map_start = (uintptr_t)shared_area,
					    .map_end = (uintptr_t)shared_area + AREA_PAGES * PAGE };
		segs[i].offset = segs[i].kind == CTL_SEG_SHARED ? va - segs[i].map_start : (uint64_t)fuzz_u8(in) * PAGE;
		if (odd >= 240)
			fuzz_bytes(in, &segs[i], sizeof(segs[i]));
		else if (odd >= 224)
			segs[i].length -= odd & 15;
		va = segs[i].va + segs[i].length;
	}
}

static void
reg(struct daemon_client *c, struct fuzz_in *in)
{
	struct {
		struct ctl_req q;
		struct ctl_seg segs[SEGS_MAX];
	} m = { .q = client_req(CTL_MR_REG) };
	uint8_t flags = fuzz_u8(in), pd = fuzz_u8(in), old = fuzz_u8(in);
	uint32_t n = fuzz_u8(in) % (SEGS_MAX + 1);
	uint64_t va = (uintptr_t)((flags & 1) != 0 ? shared_area : private_area) + (flags >> 4) * 256;
	struct ctl_mr_reg_req *r = &m.q.mr_reg;

	r->access = fuzz_u8(in) | (fuzz_u8(in) & 3) << 8;
	r->length = fuzz_u16(in);
	put_segs(m.segs, n, va, in);
	if (fuzz_left(in) == 0 && n > 0)
		r->length = m.segs[n - 1].va + m.segs[n - 1].length - va;
	r->addr = va;
	r->iova = (flags & 4) != 0 ? fuzz_u64(in) : va;
	r->nb_segs = r->nb_in_msg = n;
	if ((flags & 2) != 0) {
		m.q = client_req(CTL_MR_SEGS);
		m.q.mr_segs.nb_in_msg = n;
		client_call(c, &m, CTL_REQ_BYTES + n * sizeof(struct ctl_seg), NULL, 0);
		return;
	}
	if ((flags & 8) != 0)
		r->nb_segs += fuzz_u8(in);
	r->pd = pd;
	request_put_handle(&c->handles, &m.q, offsetof(struct ctl_req, mr_reg.pd), H_PD);
	r->replace = old % 4 == 0;
	r->old = old / 4;
	request_put_handle(&c->handles, &m.q, offsetof(struct ctl_req, mr_reg.old), H_MR);
	client_call(c, &m, CTL_REQ_BYTES + n * sizeof(struct ctl_seg), NULL, 0);
}

/** Take events, and learn the ids of connection requests from them. */
static void
read_events(struct daemon_client *c)
{
	union {
		struct ctl_cm_event cm;
		struct ctl_async_event async;
	} ev;
	ssize_t n;

	while (c->events >= 0 && (n = recv(c->events, &ev, sizeof(ev), MSG_DONTWAIT)) > 0) {
		if (n == (ssize_t)sizeof(ev.cm) && ev.cm.type == CTL_CM_EV_CONNECT_REQUEST)
			request_remember(&c->handles, H_ID, ev.cm.id);
		FUZZ_CHECK(n != (ssize_t)sizeof(ev.cm) || ev.cm.type < CTL_CM_EVENTS);
	}
}

static void
frame(struct fuzz_in *in)
{
	uint8_t bytes[FUZZ_CHUNK_MAX];
	size_t n = fuzz_left(in);

	fuzz_bytes(in, bytes, n);
	daemon_frame(bytes, n);
	daemon_turns(2);
}

static void
run(enum op op, struct daemon_client *c, struct fuzz_in *in)
{
	size_t size;

	switch (op) {
	case OP_OPEN:
		if (c->sock < 0) {
			client_begin(c);
			client_open(c);
		}
		break;
	case OP_OPEN_CM:
		if (c->sock < 0) {
			client_begin(c);
			client_open_cm(c);
		}
		break;
	case OP_CONNECT:
		if (c->sock < 0)
			client_begin(c);
		break;
	case OP_END:
		client_end(c);
		if (fuzz_below(in, 2))
			daemon_turns(1);
		break;
	case OP_REQUEST:
		request(c, in);
		break;
	case OP_RAW:
		raw(c, in);
		break;
	case OP_REG:
		reg(c, in);
		break;
	case OP_WAIT:
		daemon_pass((uint64_t)fuzz_u16(in) * DAEMON_MS);
		break;
	case OP_FRAME:
		frame(in);
		break;
	case OP_READ:
		read_events(c);
		break;
	case OP_RING:
		if (c->db != NULL)
			ring_db_ring((struct ring_db *)c->db, fuzz_u32(in) % RING_DB_SLOTS);
		break;
	default:
		daemon_turns(4);
		daemon_sent(NULL, &size, 0);
		break;
	}
	if (c->sock >= 0)
		client_take(c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size), body;
	uint8_t kind;

	for (unsigned int i = 0; i < DAEMON_SESSIONS; i++)
		clients[i] = (struct daemon_client){ .sock = -1, .events = -1 };
	while (fuzz_chunk(&in, &kind, &body)) {
		unsigned int who = fuzz_below(&body, DAEMON_SESSIONS);

		run(kind % OPS, &clients[who], &body);
	}
	daemon_end(clients, DAEMON_SESSIONS);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	daemon_begin();
	make_fds();
	return 0;
}

static size_t
repair(uint8_t kind, uint8_t *body, size_t size, size_t max)
{
	if (kind % OPS == OP_FRAME && size > 1)
		fuzz_frame_repair(body + 1, size - 1);
	return size;
}

FUZZ_PROGRAM(24, repair)
