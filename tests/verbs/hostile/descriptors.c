/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptors NUMBER: send so many descriptors in a request whose close() never ends, again and again, until the daemon takes no more.
 */
#include "raw.h"
#include "stuck.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SESSIONS = 400, FDS_MAX = 253 };

int
main(int argc, char **argv)
{
	unsigned int n = argc == 2 ? (unsigned int)atoi(argv[1]) : 0;
	struct ctl_req q = { .magic = CTL_MAGIC, .op = CTL_MEMORY };
	int fds[FDS_MAX], sock, rc;
	struct ctl_rsp r;

	if (n == 0 || n > FDS_MAX)
		attack_die("usage: descriptors NUMBER");
	stuck_mount();
	for (unsigned int i = 0; i < n; i++)
		fds[i] = stuck_open(0);
	for (unsigned int i = 0; i < SESSIONS; i++) {
		sock = raw_connect();
		rc = raw_hello(sock, -1, -1);
		if (rc == EMFILE) {
			attack_begun();
			for (;;)
				pause();
		}
		if (rc != 0 || raw_call(sock, &q, fds, n, &r) != EINVAL) {
			printf("status %d\n", rc);
			return 1;
		}
		close(sock);
	}
	puts("descriptors that don't close were never refused");
	return 1;
}
