/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registers MS [LONGEST]: a victim that registers shared memory for MS milliseconds, and says how long that takes. Status 1 if one registration takes more
 * than LONGEST milliseconds.
 */
#include <sys/mman.h>

#include "stuck.h"
#include "vt.h"

enum { MR_BYTES = 4096, NS_PER_MS = 1000000 };

int
main(int argc, char **argv)
{
	uint64_t ms = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000, most = argc > 2 ? strtoull(argv[2], NULL, 0) : UINT64_MAX;
	void *shared = mmap(NULL, MR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t since, begun, ns, n = 0, longest = 0;
	struct ibv_mr *mr;
	struct vt t;

	if (shared == MAP_FAILED)
		attack_die("no shared memory");
	vt_begin(&t);
	for (begun = since = vt_now_ns(); since - begun < ms * NS_PER_MS; n++) {
		mr = ibv_reg_mr(t.pd, shared, MR_BYTES, IBV_ACCESS_LOCAL_WRITE);
		if (mr == NULL)
			vt_die("ibv_reg_mr");
		ibv_dereg_mr(mr);
		ns = vt_now_ns() - since;
		since += ns;
		longest = ns > longest ? ns : longest;
	}
	printf("%lu registrations, %.3f ms each, the longest %.3f ms\n", (unsigned long)n, (double)(since - begun) / NS_PER_MS / (double)n,
	       (double)longest / NS_PER_MS);
	return longest / NS_PER_MS > most;
}
