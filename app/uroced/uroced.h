/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon as its files see it: what main() has started, how it starts (start.c), its devices (vdevs.c), and how its programs
 * go to another daemon (upgrade.c, keep.c).
 */
#ifndef UROCED_UROCED_H
#define UROCED_UROCED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "options.h"
#include "privileges.h"
#include "survive.h"
#include "uroce/stack.h"
#include "uroce/suspend.h"
#include "uroce/talk.h"

/** What main() has started and has to stop. */
struct uroced {
	struct uroced_config confs[OPTIONS_MAX_STACKS];
	bool eal;
	unsigned int lcores[UROCE_MAX_ENGINES];
	unsigned int nb_engines, nb_launched;
	int cpus[ENGINE_CPUS_MAX];         /**< of lcores that take turns at running the engines */
	unsigned int nb_cpus;              /**< 0: each lcore runs an engine of its own */
	struct engine_loop *loops[UROCE_MAX_ENGINES]; /**< of lcores[i], which run engine i of each stack; with nb_cpus loops[0] of all */
	struct uroce *stacks[OPTIONS_MAX_STACKS]; /**< the first one's control runs on the main lcore, the others' in threads */
	unsigned int nb_stacks;
	_Atomic uint32_t alive; /**< a bit for each stack that is, since the service manager was told last */
	struct privileges privileges;
	struct survivor survivor; /**< what outlives a crash of this process */
	uint64_t crashed_ns;      /**< when the daemon before crashed, whose programs this one has; 0: it didn't */
	struct timespec began;    /**< when this process began, CLOCK_REALTIME: its configuration isn't older */
	bool waits;        /**< it is a standby: another daemon is served by the keeper */
	bool resumes;      /**< it goes on with the programs of another one */
	bool hurries;      /**< it has called nice_hurry() */
	_Atomic int asked; /**< socket of a daemon that wants to take over, or -1 */
};

/** Print a message. @return -1, for the caller to return. */
int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** @return how many descriptors hardly any daemon exceeds, for which the process has room. */
int fds_usual(void);
/** Have the lcores run the engines. @return 0, or -1 with a message printed. */
int launch_engines(struct uroced *u);
/** End what launch_engines() began, and wait for it. */
void stop_engines(struct uroced *u);

/* ---- start.c ---- */
/** start() had nothing to do: the daemon for which this process stood by has ended properly, or this one was told to end. */
enum { START_NOT_NEEDED = 1 };
/**
 * With daemon.survive_crash find who has what outlives this process, or start it. This may fork, so it comes before threads and EAL.
 * @return 0, also if the daemon has to do without; -1 with a message printed.
 */
int find_keeper(struct uroced *u, const struct options *o);
/**
 * Start EAL and the stacks, with the programs of the daemon before if there are any. A standby waits first.
 * @param kept  Socket with the programs that the daemon before has left with the service manager, or -1.
 * @return 0; START_NOT_NEEDED; -1 with a message printed.
 */
int start(struct uroced *u, struct options *o, int kept);

/* ---- eal.c ---- */
/** Start EAL with the arguments of the command line. @return 0, or -1 with a message printed that says what to do. */
int eal_start(struct uroced *u, const struct options *o);
/** Give back what EAL has, as far as that is safe. */
void eal_end(const struct uroced *u);

/* ---- upgrade.c: the daemon that goes ---- */
/** [stack_host.hand_over] Another daemon wants the programs: end the first stack's control, so that main() gives them. */
int give_asked(void *arg, int sock);
/**
 * Give all programs to the daemon that has asked for them.
 * @return false: it didn't take them, and everything goes on. If it has taken them, this process ends here.
 */
bool give_programs(struct uroced *u);

/* ---- upgrade.c, for keep.c as well ---- */
/** Finish what is under way, stop the engines, and write all programs down. @return 0; EBUSY: copies don't end; ENOMEM. */
int write_down(struct uroced *u, struct stream_out *o);
/** write_down() was in vain: everything goes on. */
void go_on(struct uroced *u);
/** Somebody else has what was written down: close the ports and end. @param successor  Its process, for the service manager; 0: it isn't known. */
void leave(struct uroced *u, pid_t successor) __attribute__((noreturn));
/** suspend_check() with the configurations of this daemon. @param text  TALK_TEXT_BYTES long. @return 0, or -1 with a text. */
int check_programs(struct uroced *u, const struct options *o, struct stream_in *in, char *text);

/* ---- vdevs.c ---- */
enum { VDEVS_MAX = 64 };
/** Devices of the command line, for which another daemon has to make place. */
struct vdevs {
	const char *args[VDEVS_MAX];
	bool open[VDEVS_MAX];
	unsigned int n;
};
/**
 * Take the devices out of EAL's arguments, and keep EAL from using the other daemon's files.
 * @param option  What the user has asked for, for messages.
 * @return 0, or -1 with a message printed: they can't be opened when the other daemon has closed them.
 */
int take_vdevs(const struct uroced *u, struct options *o, const char *option, struct vdevs *v);
/**
 * [EAL runs] Open the devices that can be open in two processes, those of net_af_packet: the kernel takes tens of milliseconds to make one. They receive nothing
 * until the port is opened. One whose interface isn't there now, or that would take packets of the other daemon's device, is left to probe_vdevs().
 * @return 0, or -1 with a message printed: the other daemon isn't disturbed.
 */
int open_beside(struct vdevs *v);
/**
 * Wait until the other daemon's place is free. If all devices are open already, or net_memif's with both ends in that process, it needn't have ended: the kernel
 * takes its time to close devices and to unmap memory.
 * @param process  A pidfd of it, or -1: it has ended. Is closed.
 * @param crashed  It hasn't given its programs, so that it may still serve them until it ends.
 * @return false: the place isn't free after 20 s.
 */
bool vdevs_wait(const struct vdevs *v, const struct uroced *u, int process, bool crashed);
/** Open those that aren't open. @return 0, or -1 with a message printed. */
int probe_vdevs(struct vdevs *v);
/** Before EAL opens its --vdev: remove sockets of memif that nobody listens on. */
void remove_memif_sockets(const struct options *o);

/* ---- upgrade.c: the daemon that comes ---- */
/** Get programs and sockets of the daemon that runs, whose place is free afterwards. @return 0, or -1 with a message printed. */
int take_programs(struct uroced *u, const struct options *o, const struct vdevs *v, struct stream_in *in);

#endif /* UROCED_UROCED_H */
