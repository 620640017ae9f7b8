/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The CRC of what must be readable by another process: records, checkpoints, journals.
 *
 * Owns: nothing. Called by: lib/base, lib/transport, lib/control. Thread: any.
 */
#ifndef UROCE_CRC32C_H
#define UROCE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/**
 * CRC-32C (Castagnoli), as iSCSI computes it (RFC 3720, B.4), but without the complement at its begin and end.
 * @param crc    UINT32_MAX, or what this function returned for the bytes before.
 * @param at     Any alignment.
 * @param bytes  At most INT_MAX.
 */
uint32_t crc32c(uint32_t crc, const void *at, size_t bytes);

#endif /* UROCE_CRC32C_H */
