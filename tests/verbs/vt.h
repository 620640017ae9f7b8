/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What verbs test programs share: a device, QPs connected to each other, cases with names.
 *
 * These programs are written for rdma-core and know nothing of uroce. Each is one thread unless a case makes more.
 */
#ifndef VERBS_TEST_H
#define VERBS_TEST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

enum {
	VT_BUFFER_BYTES = 65536,
	VT_DEPTH = 64,
	VT_SGES = 2,
	VT_INLINE_BYTES = 64,
	VT_PORT = 1,
	VT_GID_INDEX = 1,
	VT_QKEY = 0x1234,
	VT_SECONDS = 20, /**< to wait for what must come */
};

/** The device and the memory that the cases use. */
struct vt {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr; /**< of buf, all access */
	uint8_t *buf;
};

/** A test: sets vt_failed by VT_CHECK(). */
struct vt_case {
	const char *name;
	void (*run)(struct vt *t);
};
#define VT_CASE(fn) { #fn, fn }

extern const char *vt_case_name;
extern bool vt_failed;

#define VT_CHECK(cond, ...) \
	do { \
		if (!(cond)) { \
			printf("%s: %s:%d: " #cond ": ", vt_case_name, __FILE__, __LINE__); \
			printf(__VA_ARGS__); \
			printf("\n"); \
			vt_failed = true; \
		} \
	} while (0)
/** A verb that returns 0 or an errno value. */
#define VT_OK(call) \
	do { \
		int vt_rc_ = (call); \
		VT_CHECK(vt_rc_ == 0, #call ": %s", strerror(vt_rc_ < 0 ? errno : vt_rc_)); \
	} while (0)

/** Say what can't go on, and exit. */
void vt_die(const char *what) __attribute__((noreturn));
/** Open the first device, register the buffer. vt_main() does it for its cases. */
void vt_begin(struct vt *t);
/** Close it; what is still in use sets vt_failed. */
void vt_end(struct vt *t);
/** Run the cases, or the one that argv[1] names. @return the program's status. */
int vt_main(int argc, char **argv, const struct vt_case *cases, unsigned int n);

struct ibv_cq *vt_cq(struct vt *t, int cqe, struct ibv_comp_channel *channel);
/** A QP in RESET. */
struct ibv_qp *vt_qp(struct vt *t, enum ibv_qp_type type, struct ibv_cq *send_cq, struct ibv_cq *recv_cq);
/** From RESET to RTS, with @p peer (itself, for UD) at the other end. */
void vt_connect(struct vt *t, struct ibv_qp *qp, struct ibv_qp *peer);
/** The attributes of the ways there, for those who go them one by one. @return the mask. */
int vt_attr_init(struct ibv_qp *qp, struct ibv_qp_attr *attr);
int vt_attr_rtr(struct vt *t, struct ibv_qp *qp, uint32_t dest_qpn, struct ibv_qp_attr *attr);
int vt_attr_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr);
/** To ourselves by the first address. */
void vt_ah_attr(struct vt *t, struct ibv_ah_attr *attr);
void vt_destroy_qp(struct ibv_qp *qp);
void vt_destroy_cq(struct ibv_cq *cq);

/** SEND or RDMA WRITE of @p length bytes from the buffer's first to its second half. */
void vt_send(struct vt *t, struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t length, int flags);
void vt_recv(struct vt *t, struct ibv_qp *qp, uint64_t wr_id);
/** Wait for a completion. @return false: none came. */
bool vt_poll(struct ibv_cq *cq, struct ibv_wc *wc);
/** The next one must be this. */
void vt_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/** @return true if @p fd is readable within @p ms. */
bool vt_readable(int fd, int ms);
uint64_t vt_now_ns(void);

#endif /* VERBS_TEST_H */
