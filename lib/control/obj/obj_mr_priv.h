/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * MRs, memory windows and device memory of programs.
 *
 * Owns: struct obj_mr, struct obj_mw and struct obj_dm. lib/mem has the keys and access checks, memory/memmap.c the mappings. Called
 * by: the handlers of requests, session_end.c, observe. Thread: control.
 */
#ifndef UROCE_OBJ_MR_PRIV_H
#define UROCE_OBJ_MR_PRIV_H

#include "control/memory/memmap_priv.h"
#include "control/obj/object_priv.h"
#include "mem/mw.h"

/** Device memory: the daemon's own, which programs and peers use by MRs of it. */
struct obj_dm {
	struct obj obj; /**< its users are MRs */
	uint64_t length;
	struct shm_block block;
};

/** Where a piece of an MR is, for a daemon that maps it anew. */
struct mr_origin {
	uint64_t va, length;
	uint64_t offset; /**< in the memfd of converted memory; MR_ORIGIN_REMOTE: the program's own memory, by /proc/PID/mem */
};
#define MR_ORIGIN_REMOTE UINT64_MAX

struct obj_mr {
	struct obj obj;
	struct session *session;
	struct obj_pd *pd;
	struct mr *mr;
	uint64_t charged;  /**< bytes of registered memory, 0 with on-demand paging */
	uint64_t metadata; /**< bytes charged, in addition to those of the object */
	struct mem_maps maps;
	struct obj_dm *dm; /**< NULL: it isn't of device memory */
	uint32_t nb_origins;
	struct mr_origin *origins; /**< NULL: a null MR, one of device memory, or of this process */
};

struct obj_mw {
	struct obj obj;
	struct obj_pd *pd;
	struct mw *mw;
};

op_fn op_mr_reg, op_mr_segs, op_mr_dereg;
obj_save_fn obj_mr_save, obj_mw_save, obj_dm_save;
obj_restore_fn obj_mr_restore, obj_mw_restore, obj_dm_restore;
/**
 * Map the segments that f has plans for, and publish an MR of them.
 * @param b  Its request says what the MR is like.
 * @return 0 or an errno value, with the request failed; then obj_mr_forget() is right.
 */
int obj_mr_create(struct map_build *b, const struct map_files *f, struct obj_mr *mr, struct obj_mr *replaces);
/** Free what the control thread has of an MR, and give back what it was charged with. */
void obj_mr_forget(struct session *s, struct obj_mr *mr);
/** Find the file from which a segment has to be mapped; that of shared memory is opened later. */
void obj_mr_plan(const struct session *s, const struct ctl_seg *seg, struct seg_plan *plan);
/** Give up an MR that is being made. */
void obj_mr_cancel(struct session *s);
void obj_mr_destroy_all(struct session *s);
op_fn op_mr_null, op_dm_alloc, op_dm_free, op_dm_reg;
/** Free device memory of which no MR is left. */
void obj_dm_free(struct session *s, struct obj_dm *dm);
/* ---- Import: import.c ---- */
op_fn op_device_import, op_pd_import, op_mr_import;

op_fn op_mw_alloc, op_mw_free;
void obj_mw_destroy_all(struct session *s);

#endif /* UROCE_OBJ_MR_PRIV_H */
