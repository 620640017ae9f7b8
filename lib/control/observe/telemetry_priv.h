/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the telemetry files share: the commands, and helpers to build answers.
 *
 * Thread: one of rte_telemetry's, which holds control_lock() while a command runs.
 */
#ifndef UROCE_TELEMETRY_H
#define UROCE_TELEMETRY_H

#include "base/dpdk_compat.h"
#include "control/core/control_priv.h"
#include "control/observe/inspect.h"

struct counter_table;

enum {
	TEL_LIST_MAX = 500, /**< numbers in one answer: as many as telemetry, and its 16 KiB of text, have room for */
};

/** A command. @param params  What follows the comma; "": nothing. @return 0, or a negative errno value. */
typedef int tel_show_fn(struct control *c, const char *params, struct rte_tel_data *d);
tel_show_fn tel_config, tel_port, tel_impair, tel_engine, tel_capture, tel_cm, tel_memory, tel_handover, tel_session, tel_qp, tel_move, tel_cq, tel_mr;

/** Answer queries about @p c from now on, unless another control is being answered for already. */
void telemetry_start(struct control *c);
/** @return under which number @p c is answered for, from 0 (/uroce/...); as many as there are commands for if it isn't. */
unsigned int telemetry_number(const struct control *c);
/** Stop answering queries about @p c. */
void telemetry_stop(struct control *c);

/** @return true if @p params is a number, that is, asks for one object. */
bool tel_number(const char *params, uint64_t *number);
/** @return the index of the port called @p name, or -1. */
int tel_port_index(const struct control *c, const char *name);
/** Add a dictionary named @p name to @p d. @return it, or NULL: no memory. */
struct rte_tel_data *tel_dict(struct rte_tel_data *d, const char *name);
/** Add an array in the same way. */
struct rte_tel_data *tel_array(struct rte_tel_data *d, const char *name, enum rte_tel_value_type type);
/** Add a text of any length, as an array of strings, because a string of telemetry is short. */
void tel_text(struct rte_tel_data *d, const char *name, const char *text);
/** Add an array of strings: the parts of @p list between any of @p delimiters. @p list is modified; NULL: no parts. */
void tel_strings(struct rte_tel_data *d, const char *name, char *list, const char *delimiters);
/** Answer that @p params is unknown, and which names are known. */
int tel_unknown(struct rte_tel_data *d, const char *what, const char *params, const char *known);
/** Answer that the query is wrong, and what would be right. */
int tel_error(struct rte_tel_data *d, const char *text);
/** Add all counters of @p t in struct @p base. @param d  May be NULL: no memory. */
void tel_counters(struct rte_tel_data *d, const struct counter_table *t, const void *base);
/** Add numbers of objects, and the total number. */
void tel_number_list(struct rte_tel_data *d, const uint64_t *numbers, uint32_t n, uint32_t all);

/* ---- Shared by the commands about objects: telemetry_objects.c ---- */
/** Answer with the numbers of the objects that the filters in @p params select. */
int tel_list(struct control *c, enum inspect_kind kind, const char *params, struct rte_tel_data *d);
/** Answer that there is no such object. */
int tel_gone(struct rte_tel_data *d, const char *what, const char *params);
/** Add the state of a CQ. @param d  May be NULL: no memory. */
void tel_cq_view(struct rte_tel_data *d, const struct cq_view *v);

#endif /* UROCE_TELEMETRY_H */
