/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A look at a program before it is executed: will it load our libraries? The dynamic linker says nothing when it doesn't,
 * and the program then finds no device.
 */
#ifndef UROCE_RUN_LOOK_H
#define UROCE_RUN_LOOK_H

/** What keeps a program from loading our libraries. */
enum look_reason {
	LOOK_FINE,      /**< nothing, or nothing that we know of */
	LOOK_STATIC,    /**< it is linked statically */
	LOOK_PRIVILEGE, /**< setuid, setgid or file capabilities: the dynamic linker ignores LD_LIBRARY_PATH (ld.so(8)) */
	LOOK_RPATH,     /**< its DT_RPATH, which comes before LD_LIBRARY_PATH, leads to another libibverbs */
	LOOK_MACHINE,   /**< it is for another kind of processor than our libraries */
};

/** What look_at() found. */
struct look {
	enum look_reason reason;
	char file[4096]; /**< the file that the reason is about: the program, or the interpreter of a script */
	char text[4096]; /**< the reason in words, without the name of the file; "" if LOOK_FINE */
};

/**
 * Look at the program that execvp(@p name) would execute. A script is followed to its interpreter, also through env(1).
 * A program that can't be found or read is LOOK_FINE: execvp() knows better what is wrong.
 *
 * Thread: main.
 */
void look_at(const char *name, struct look *l);

#endif /* UROCE_RUN_LOOK_H */
