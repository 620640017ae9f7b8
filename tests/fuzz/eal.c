/* SPDX-License-Identifier: BSD-3-Clause */
/* EAL without hugepages, files and threads of its own, and what the sanitizers needn't say about it. */
#include <stdio.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include "fuzz.h"
#include "wire/wire.h"

const char *__lsan_default_suppressions(void);

/** EAL never frees what it allocates for itself; the daemon (daemon.c) lives as long as the process. */
const char *
__lsan_default_suppressions(void)
{
	return "leak:rte_eal_init\nleak:librte_eal\nleak:stack_create_on\n";
}

void
fuzz_eal(void)
{
	static bool done;
	char *argv[] = { "fuzz", "--no-huge", "-m", "128", "--no-shconf", "--file-prefix", "uroce-fuzz", "--no-pci",
			 "--no-telemetry", "-l", "0", "--log-level", "1", NULL };

	if (done)
		return;
	done = true;
	if (rte_eal_init(sizeof(argv) / sizeof(argv[0]) - 1, argv) < 0) {
		fprintf(stderr, "rte_eal_init: %s\n", rte_strerror(rte_errno));
		FUZZ_CHECK(!"EAL begins");
	}
}

struct rte_mempool *
fuzz_pool(unsigned int mbufs)
{
	struct rte_mempool *pool;

	fuzz_eal();
	pool = rte_pktmbuf_pool_create("fuzz", mbufs, 0, 0, RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES, 0);
	FUZZ_CHECK(pool != NULL);
	return pool;
}
