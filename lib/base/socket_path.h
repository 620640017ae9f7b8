/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What there is at a path at which a unix socket is to be made. Thread: any. */
#ifndef UROCE_SOCKET_PATH_H
#define UROCE_SOCKET_PATH_H

#include <stddef.h>

enum socket_path {
	SOCKET_PATH_FREE,      /**< nothing, perhaps no more: a socket at which nobody listens was removed */
	SOCKET_PATH_USED,      /**< somebody listens, with a socket of the same type */
	SOCKET_PATH_OTHER,     /**< somebody listens, with a socket of another type */
	SOCKET_PATH_NO_SOCKET, /**< something else */
	SOCKET_PATH_STALE,     /**< a socket at which nobody listens, and which can't be removed */
	SOCKET_PATH_UNKNOWN,   /**< it can't be told */
};

/**
 * Remove a socket at which nobody listens any more.
 * @param type  SOCK_SEQPACKET ...: of the socket that is to be made. With another one than SOCK_STREAM whoever listens with a stream doesn't notice.
 * @param err  An errno value: of SOCKET_PATH_STALE and SOCKET_PATH_UNKNOWN.
 */
enum socket_path socket_path_clear(const char *path, int type, int *err);

/**
 * Write the name of the folder that @p path is in to @p folder, of @p bytes.
 * @return 0; ENOENT: there is no such folder; EACCES: this user can't make anything in it; ENAMETOOLONG.
 */
int socket_path_folder(const char *path, char *folder, size_t bytes);

#endif /* UROCE_SOCKET_PATH_H */
