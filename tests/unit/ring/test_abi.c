/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The limits of ring/abi.h, which client and daemon must agree on. A client of another build passes and expects these numbers: whoever changes one
 * changes UROCE_ABI_VERSION too. (Values that come from rdma-core are compared with verbs.h in lib/verbs/abi_check.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ring/abi.h"

static void
limits_are_those_of_this_version(void **state)
{
	static const struct {
		const char *name;
		uint64_t value, expected;
	} limits[] = {
#define LIMIT(name, expected) { #name, UROCE_##name, expected }
		LIMIT(ABI_VERSION, 8), LIMIT(MAX_PORTS, 16), LIMIT(MAX_ENGINES, 64), LIMIT(MAX_GIDS, 16), LIMIT(MAX_PKEYS, 4),
		LIMIT(MAX_SESSIONS, 1024), LIMIT(MAX_QP, 65536), LIMIT(MAX_QP_WR, 32768), LIMIT(MAX_SGE, 32), LIMIT(MAX_INLINE, 1024),
		LIMIT(MAX_CQ, 65536), LIMIT(MAX_CQE, 4194304), LIMIT(MAX_MR, 262144), LIMIT(MAX_PD, 65536), LIMIT(MAX_SRQ, 65536),
		LIMIT(MAX_AH, 65536), LIMIT(MAX_MCAST_GROUPS, 1024), LIMIT(MAX_MCAST_ATTACH, 256), LIMIT(MAX_RD_ATOMIC, 64),
		LIMIT(MAX_CM_ID, 65536), LIMIT(MAX_MR_SEGS, 65536), LIMIT(MAX_DM_BYTES, 1048576), LIMIT(MAX_DM_LOG_ALIGN, 6),
		LIMIT(MAX_MSG_BYTES, 2147483648),
#undef LIMIT
	};

	for (unsigned int i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (limits[i].value != limits[i].expected)
			fail_msg("%s is %lu, was %lu", limits[i].name, (unsigned long)limits[i].value, (unsigned long)limits[i].expected);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_those_of_this_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
