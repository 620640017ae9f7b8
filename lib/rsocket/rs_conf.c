/* SPDX-License-Identifier: BSD-3-Clause */
/* Defaults of rsockets, and the administrator's files that change them: one number per file, see man 7 rsocket. */
#include <stdio.h>

#include "rsocket/rs_priv.h"

#define RS_CONF_DIR "/etc/rdma/rsocket/"

uint32_t rs_polling_us = 10;

static struct rs_sizes sizes = {
	.send_bytes = 1 << 17,
	.recv_bytes = 1 << 17,
	.sq = 384,
	.rq = 384,
	.inline_bytes = 64,
	.iomaps = 0,
};

/* wake_up_interval isn't supported: no thread has to wake up periodically to check for something that it missed. */
static const struct {
	const char *file;
	uint32_t *value;
	uint32_t min, max;
} settings[] = {
	{ RS_CONF_DIR "polling_time", &rs_polling_us, 0, UINT32_MAX },
	{ RS_CONF_DIR "mem_default", &sizes.recv_bytes, RS_BUFFER_MIN, RS_BUFFER_MAX },
	{ RS_CONF_DIR "wmem_default", &sizes.send_bytes, RS_BUFFER_MIN, RS_BUFFER_MAX },
	{ RS_CONF_DIR "sqsize_default", &sizes.sq, RS_QUEUE_MIN, RS_QUEUE_MAX },
	{ RS_CONF_DIR "rqsize_default", &sizes.rq, RS_QUEUE_MIN, RS_QUEUE_MAX },
	{ RS_CONF_DIR "inline_default", &sizes.inline_bytes, 0, UINT16_MAX },
	{ RS_CONF_DIR "iomap_size", &sizes.iomaps, 0, RS_IOMAP_MAX },
};

static void
read_settings(void)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		FILE *f = fopen(settings[i].file, "re");
		uint32_t n;

		if (!f)
			continue;
		if (fscanf(f, "%u", &n) == 1) {
			n = n < settings[i].min ? settings[i].min : n;
			*settings[i].value = n > settings[i].max ? settings[i].max : n;
		}
		fclose(f);
	}
	sizes.iomaps = rs_iomap_unscale(rs_iomap_scale(sizes.iomaps));
}

const struct rs_sizes *
rs_conf_sizes(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_settings);
	return &sizes;
}
