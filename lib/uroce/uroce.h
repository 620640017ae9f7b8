/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A uroce stack inside a DPDK application: one host with its ports, engines and control thread, which is what uroced is
 * made of as well.
 *
 * The application initializes EAL, creates the stack, and gives it what drives it:
 *
 *  - each *engine* (the data path) gets turns, either one by one from a loop of the application's own, by
 *    uroce_engine_poll(), or from uroce_engine_run(), which keeps the calling thread as the daemon's does;
 *  - the *control* (connections, registrations, neighbours, other programs) has a thread of its own, by
 *    uroce_control_start(), or gets turns by uroce_control_poll(), or keeps the calling thread in uroce_control_run().
 *
 * Who may call what. A function marked [any] may be called by every thread at every time between uroce_create() and
 * uroce_destroy(). One marked [owner] must not run while another thread is in a function of the same stack that ends it
 * (uroce_shutdown(), uroce_destroy()). The control changes what an engine owns by messages; if the engine isn't in a turn
 * at that moment the control runs them itself. So one thread may do both, one after the other, and nothing waits for
 * itself. What can't work is refused: an engine has one driver, and so has the control.
 *
 * A process may have several stacks, of which each has ports of its own.
 *
 * The process ignores SIGPIPE from the first stack on, unless it handles it: writing to a program that has gone is an error code.
 */
#ifndef UROCE_H
#define UROCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uroce;

/** Room that a message needs. */
#define UROCE_ERR_BYTES 1024

/** What a stack is made of. All zero but for the configuration: one engine, no other programs. */
struct uroce_params {
	/** Configuration file as uroced has it (config/uroced.conf); NULL: settings only. */
	const char *config_file;
	/**
	 * Settings "section.key=value" as uroced's --set has them, which win over the file; at least one
	 * "port NAME.ethdev=..." or the same in the file. The text may go after uroce_create().
	 */
	const char *const *sets;
	unsigned int nb_sets;
	/** Engines, each with a queue of every port; 0: one. */
	unsigned int nb_engines;
	/** The lcore that will drive each engine, for memory on its NUMA node; NULL: the memory of the caller's. */
	const unsigned int *lcores;
	/** Serve other programs on this machine too, by the socket `daemon.socket`. */
	bool serve;
	/**
	 * SIGTERM and SIGINT end uroce_control_run(), SIGHUP has all stacks of the process read their configurations again. The
	 * caller has blocked the three in all threads. For one stack of a process only.
	 */
	bool signals;
	/**
	 * [control] Another process, uroced or an application that calls uroce_resume(), asks for the programs that the stack serves. To be noted only: the
	 * application then stops what drives the stack, and calls uroce_suspend(); the other process waits for some seconds. May be called again. NULL: the
	 * stack's programs end with it.
	 */
	void (*asked_for)(void *arg);
	void *asked_arg;
};

/**
 * Create a stack: read the configuration, open its ports, make engines and tables. Nothing moves until it is driven. If some of several ports can't be
 * opened, the log says why, and the control tries again from time to time; the others serve. If a device goes, as its driver or the kernel reports, the
 * control closes the ethdev and removes the device from EAL.
 *
 * Memory: packet buffers (key daemon.mbufs) and tables come from EAL's memory, hugepages or not.
 *
 * @param p  What it is made of.
 * @param err  Gets what was wrong and what would be right; UROCE_ERR_BYTES long.
 * @return the stack; NULL with a message.
 * @note [any] Thread: one that may run EAL's functions; EAL is initialized.
 */
struct uroce *uroce_create(const struct uroce_params *p, char *err);

/**
 * End all connections and sessions as their peers expect it (disconnections are sent), and stop listening. Objects that the
 * application made by uroce_open_device() are gone; its handles must not be used any more but for closing them. Engines may
 * go on turning meanwhile, and should where there is much to say.
 * @note [owner] Ends a control thread that uroce_control_start() began. Once is enough, more does nothing.
 */
void uroce_shutdown(struct uroce *u);

/**
 * Free everything; uroce_shutdown() first if that wasn't done. Gives each engine some turns, so that what has still to be sent
 * is sent. Its ethdevs are closed: for another stack on them they must be attached again.
 * @note [owner] No thread is in uroce_engine_run() or uroce_engine_poll(), nor will be.
 * @param u  May be NULL.
 */
void uroce_destroy(struct uroce *u);

/**
 * Give the programs that the stack serves, with all their objects and connections, to the process that has asked for them (uroce_params.asked_for). They
 * notice a pause. With this the ports are closed, and the application must end its process at once, because the other one waits for that and then opens
 * the ports. Devices of the application's own, uroce_open_device(), can't go over; they must be closed.
 *
 * Takes as long as requests of programs that are under way, 6 s at most.
 *
 * @param err  Gets what was wrong; UROCE_ERR_BYTES long.
 * @return 0: the other process has them, and functions of the stack do nothing any more. Otherwise the stack is as it was, to be driven again, and whoever asked is told why: -EAGAIN,
 * nobody has asked; -EBUSY, a thread drives it, a device of this process is open, or copies of programs' memory don't end; -EOPNOTSUPP, the process has
 * other stacks; -ESHUTDOWN; -EINVAL, another configuration; -EPIPE, -ETIMEDOUT, the other process has gone or doesn't answer; -ENOMEM.
 * @note [owner] No thread is in uroce_engine_run(), uroce_engine_poll() or a driver of the control, nor will be meanwhile.
 */
int uroce_suspend(struct uroce *u, char *err);

/**
 * uroce_create() with the programs of the process that serves them now at `daemon.socket`: uroced, or an application, of this or another version. That one
 * has ended when this returns. What takes long, memory and tables, is made before it is asked.
 *
 * The configuration has the same ports in the same order, the same number of engines, and the socket; devices (`ethdev`), addresses and other keys may
 * differ. uroced must have been started without --one-engine, and with one configuration.
 *
 * @param p  As for uroce_create(), with `serve`.
 * @param attach  [owner] Attaches the ports' devices to EAL (rte_dev_probe()), which the other process had open until now. @return 0 or an errno value.
 * NULL: they are attached already, and the drivers don't mind.
 * @param arg  For @p attach.
 * @param err  Gets what was wrong and what would be right; UROCE_ERR_BYTES long.
 * @return the stack; NULL with a message: then the other process goes on, unless the message says that it has handed its programs over or that a port can't
 * be had: then they have ended.
 * @note [any] As uroce_create(); root, or the other process's user.
 */
struct uroce *uroce_resume(const struct uroce_params *p, int (*attach)(void *arg), void *arg, char *err);

struct ibv_context;

/**
 * Open a device of the stack, for verbs inside this process (uroce_verbs.h): what ibv_open_device() is to a program.
 * Needs neither a driver nor a privilege. The device is closed by ibv_close_device().
 *
 * @param name  Of a port in the configuration, "uroce0".
 * @return NULL with errno set: ENODEV, no such port; ESHUTDOWN, after uroce_shutdown(); ENOMEM, ENOBUFS, EMFILE: no room,
 * or `daemon.max_sessions` are there already.
 * @note [any]
 */
struct ibv_context *uroce_open_device(struct uroce *u, const char *name);

/** @return the number of engines; they are numbered from 0. [any] */
unsigned int uroce_engine_count(const struct uroce *u);

/**
 * One turn of an engine: a burst from each port, the messages of the control, doorbells, timers, sending. Never sleeps; takes
 * from some hundred nanoseconds, when there is nothing, to some ten microseconds.
 *
 * To be called again and again, and at the latest every millisecond or so while there is traffic: who is away for longer is seen
 * by peers as loss.
 *
 * @param engine  Number of the engine.
 * @return how much was done, 0: nothing; -EINVAL: no such engine; -EBUSY: uroce_engine_run() drives it.
 * @note [any] An EAL thread sends faster, because only those have caches of packet buffers. Two threads may call it for one
 * engine; then they wait for each other.
 */
int uroce_engine_poll(struct uroce *u, unsigned int engine);

/**
 * Drive an engine until uroce_engine_stop(), with the idle policy of the configuration (key daemon.idle).
 * @param engine  Number of the engine.
 * @return 0; -EINVAL: no such engine; -EBUSY: another thread does already.
 * @note [any]
 */
int uroce_engine_run(struct uroce *u, unsigned int engine);

/**
 * End uroce_engine_run() of that engine after its turn; if it isn't running, its next run ends after the first turn.
 * @param engine  Number of the engine; others are ignored.
 * @note [any]
 */
void uroce_engine_stop(struct uroce *u, unsigned int engine);

/**
 * Begin a thread that runs the control. It sleeps when there is nothing to do, and runs where EAL puts control threads: on cores
 * that are no lcore's, if there are some.
 * @param err  Gets what was wrong; UROCE_ERR_BYTES long.
 * @return 0; -EBUSY: the control has a driver already; another negative errno value: no thread, no socket.
 * @note [owner]
 */
int uroce_control_start(struct uroce *u, char *err);

/**
 * End the thread of uroce_control_start(), or, [any] from another thread or a signal handler, uroce_control_run(). Sessions stay, and
 * are served again when the control has another driver.
 * @note [owner] if uroce_control_start() was called: waits for the thread.
 */
void uroce_control_stop(struct uroce *u);

/**
 * One turn of the control, without sleeping; some microseconds when there is nothing to do. Requests of other programs, ARP, connection
 * set-up and timers in milliseconds wait for it: a call per millisecond is enough.
 * @return how much was done, 0: nothing; -EBUSY: the control has another driver; another negative errno value: the socket can't
 * be had.
 * @note [any]
 */
int uroce_control_poll(struct uroce *u);

/**
 * Drive the control on the calling thread until uroce_control_stop(), or a signal if uroce_params.signals.
 * @param err  Gets what was wrong; UROCE_ERR_BYTES long.
 * @return 0; -EBUSY: the control has a driver already; another negative errno value: the socket can't be had.
 * @note [any]
 */
int uroce_control_run(struct uroce *u, char *err);

#ifdef __cplusplus
}
#endif

#endif /* UROCE_H */
