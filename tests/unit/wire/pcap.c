/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pcap.h"

#define PCAP_MAGIC 0xa1b2c3d4u
#define PCAP_FILE_HEADER_BYTES 24
#define PCAP_RECORD_HEADER_BYTES 16
#define PCAP_LINKTYPE_OFFSET 20
#define PCAP_LINKTYPE_ETHERNET 1

static uint32_t
le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

bool
pcap_open(struct pcap *p, const char *path)
{
	FILE *f = fopen(path, "rb");

	memset(p, 0, sizeof(*p));
	if (f == NULL)
		return false;
	fseek(f, 0, SEEK_END);
	p->size = ftell(f);
	rewind(f);
	p->bytes = malloc((size_t)p->size + 1);
	if (p->bytes == NULL || fread(p->bytes, 1, (size_t)p->size, f) != (size_t)p->size)
		p->size = 0;
	fclose(f);
	p->pos = PCAP_FILE_HEADER_BYTES;
	if (p->size >= PCAP_FILE_HEADER_BYTES && le32(p->bytes) == PCAP_MAGIC &&
	    le32(p->bytes + PCAP_LINKTYPE_OFFSET) == PCAP_LINKTYPE_ETHERNET)
		return true;
	pcap_close(p);
	return false;
}

void
pcap_close(struct pcap *p)
{
	free(p->bytes);
	p->bytes = NULL;
}

const uint8_t *
pcap_next(struct pcap *p, uint32_t *len)
{
	const uint8_t *frame;

	if (p->pos + PCAP_RECORD_HEADER_BYTES > p->size)
		return NULL;
	*len = le32(p->bytes + p->pos + 8);
	frame = p->bytes + p->pos + PCAP_RECORD_HEADER_BYTES;
	p->pos += PCAP_RECORD_HEADER_BYTES + (long)*len;
	return p->pos <= p->size ? frame : NULL;
}

void
golden_for_each(golden_fn fn, void *arg)
{
	DIR *dir = opendir(GOLDEN_DIR);
	const struct dirent *d;
	unsigned int files = 0;

	assert_non_null(dir);
	while ((d = readdir(dir)) != NULL) {
		const char *dot = strrchr(d->d_name, '.');
		char path[1024];
		struct pcap p;
		const uint8_t *frame;
		uint32_t len;
		unsigned int number = 0;

		if (dot == NULL || strcmp(dot, ".pcap") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, d->d_name);
		if (!pcap_open(&p, path))
			fail_msg("%s: not a pcap file of Ethernet frames", path);
		while ((frame = pcap_next(&p, &len)) != NULL)
			fn(d->d_name, ++number, frame, len, arg);
		if (p.pos != p.size)
			fail_msg("%s: ends in the middle of a frame", path);
		pcap_close(&p);
		files++;
	}
	closedir(dir);
	assert_int_not_equal(files, 0);
}
