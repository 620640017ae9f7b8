/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>

#include "base/cores.h"

bool
cores_scarce(const struct cores *c)
{
	return c->pollers > c->cpus || c->late_turns > 0;
}

char *
cores_text(const struct cores *c, char *text, size_t bytes)
{
	/* scripts/uroce_lab/cores.py prints the same line. */
	snprintf(text, bytes, "%u poller%s on %u core%s, %" PRIu64 " late turn%s: the figures suffer from threads that wait for a core",
		 c->pollers, c->pollers == 1 ? "" : "s", c->cpus, c->cpus == 1 ? "" : "s", c->late_turns,
		 c->late_turns == 1 ? "" : "s");
	return text;
}
