/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce move: QPs from one engine of the daemon to another. */
#include <string.h>

#include "uroce.h"

int
cmd_move(int argc, char **argv)
{
	uint64_t n;

	if (argc == 0 || (argc == 1 && strcmp(argv[0], "show") == 0))
		return show_moves(NULL, NULL);
	if (argc != 2 || !number_of(argv[0], &n) || !number_of(argv[1], &n))
		return usage("move: give the number of a QP and that of an engine; `uroce resource show qp` lists both");
	return show_moves(argv[0], argv[1]);
}
