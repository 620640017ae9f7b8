/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * EAL's folders in /run/dpdk of programs whose file prefix ends with their process id: EAL leaves them behind, also after an orderly end.
 *
 * Thread: any, one at a time.
 */
#ifndef UROCE_OWN_DIRS_H
#define UROCE_OWN_DIRS_H

/** Remove the folder @p path with the files in it. Nothing is said if that fails. */
void own_dir_remove(const char *path);
/**
 * Remove the folders beside @p path whose names are @p prefix and the id of a process that has ended. A folder whose file "config" is locked
 * belongs to a program that runs, perhaps in another container. Nothing is removed where others may make folders, and no link is followed.
 *
 * @param path  the folder of this process
 */
void own_dirs_clean(const char *path, const char *prefix);

#endif /* UROCE_OWN_DIRS_H */
