/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crc32c.h"

#include <isa-l/crc.h>

#include "base/isal.h"

uint32_t
crc32c(uint32_t crc, const void *at, size_t bytes)
{
	crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)bytes, crc);
	isal_crc_done(bytes);
	return crc;
}
