/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration: a file, and behind a zero byte each setting of the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_log.h>

#include "control/config/config.h"
#include "fuzz.h"

enum { SETS_MAX = 8 };

static char path[32];
static int file = -1;

static void
differs(void *arg, const struct config_port *old_port, const struct config_port *new_port, const char *key)
{
	/* Nothing differs from itself. */
	FUZZ_CHECK(arg != NULL && key != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct uroced_config c, defaults;
	char err[CONFIG_ERR_BYTES], *text = malloc(size + 1), *at;
	const char *sets[SETS_MAX];
	unsigned int nb_sets = 0;
	size_t n;
	int rc;

	FUZZ_CHECK(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	n = strlen(text);
	for (at = text + n; at < text + size && nb_sets < SETS_MAX; at += strlen(at))
		sets[nb_sets++] = ++at;
	FUZZ_CHECK(ftruncate(file, 0) == 0 && pwrite(file, text, n, 0) == (ssize_t)n);
	memset(err, 'x', sizeof(err));
	rc = config_load(path, sets, nb_sets, &c, err);
	FUZZ_CHECK(rc == 0 || memchr(err, 0, sizeof(err)) != NULL);
	/* A file that can't be read is an error of its own; a bad one isn't believed in any part. */
	if (rc == 0) {
		FUZZ_CHECK(c.nb_ports <= UROCE_MAX_PORTS && memchr(c.socket, 0, sizeof(c.socket)) != NULL);
		config_compare(&c, &c, differs, NULL);
		config_defaults(&defaults);
		config_compare(&defaults, &c, differs, &c);
	}
	free(text);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	file = memfd_create("config", MFD_CLOEXEC);
	FUZZ_CHECK(file >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return 0;
}
