/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce impair: ports that are a bad network on purpose. */
#include <string.h>

#include "uroce.h"

int
cmd_impair(int argc, char **argv)
{
	static const char *const words[] = { "show", "set", NULL };

	if (argc == 0 || strcmp(argv[0], "show") == 0) {
		if (argc > 2)
			return usage("impair show: one port at most");
		return show_impairments(argc == 2 ? argv[1] : NULL);
	}
	if (strcmp(argv[0], "set") != 0)
		return unknown_word("action of impair", argv[0], words);
	if (target.lab == NULL)
		return usage("impair set changes labs (--lab NAME HOST); a daemon's ports have the key `impair` in its configuration, which it reads again "
			     "on `systemctl reload uroced`");
	if (argc != 2)
		return usage("impair set: give the settings in one word, for example loss=0.01,delay=100 (us); none: no impairment");
	return cmd_lab(5, (char *[]){ (char[]){ "impair" }, (char[]){ "--name" }, (char *)(uintptr_t)target.lab, (char *)(uintptr_t)target.host,
				      argv[1], NULL });
}
