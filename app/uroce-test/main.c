/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-test: a DPDK application with UROCE embedded, controlled by typed commands like testpmd.
 *
 * Start reading at command.h (commands), hosts.h (stacks and lcores) and workload.h (traffic).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "args.h"
#include "attach.h"
#include "banner.h"
#include "base/own_dirs.h"
#include "cmd_capture.h"
#include "command.h"
#include "hosts.h"
#include "objects.h"
#include "shell.h"
#include "workload.h"

enum { LOG_BYTES = 2048 };

static void
on_signal(int sig)
{
	if (sig == SIGINT)
		shell_interrupt();
	else
		shell_quit();
}

/** What the stack logs mustn't run into the line that the user types. */
static ssize_t
write_log(void *cookie, const char *text, size_t bytes)
{
	char line[LOG_BYTES];

	/* To a file that is not the terminal it goes as always. */
	if (!shell_interactive() || !isatty(STDERR_FILENO))
		return (ssize_t)fwrite(text, 1, bytes, stderr);
	snprintf(line, sizeof(line), "%.*s", (int)bytes, text);
	shell_note(line);
	return (ssize_t)bytes;
}

static void
log_through_shell(void)
{
	FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_log });

	if (f == NULL)
		return;
	setvbuf(f, NULL, _IOLBF, LOG_BYTES);
	rte_openlog_stream(f);
}

static int
run_commands(const struct options *o)
{
	char line[COMMAND_LINE_BYTES];

	for (unsigned int i = 0; i < o->nb_files; i++)
		if (shell_file(o->files[i]) != 0)
			return EXIT_USAGE;
	for (unsigned int i = 0; i < o->nb_auto_start; i++) {
		snprintf(line, sizeof(line), "start %s", o->auto_start[i]);
		shell_run(line);
	}
	for (unsigned int i = 0; i < o->nb_commands && !shell_quitting(); i++)
		shell_run(o->commands[i]);
	if (o->nb_commands == 0 && !shell_quitting()) {
		if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
			(o->attach != NULL ? attach_banner : banner_print)();
		shell_input();
	}
	/* Wait for workloads with a duration or count, so that a script needs no `wait`. */
	workloads_finish();
	return command_failures() > 0 || workloads_failed() > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int
run_attached(const struct options *o)
{
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	shell_echo(o->echo);
	return attach_begin(o->attach, o->json) == 0 ? run_commands(o) : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	static struct options o;
	bool own_eal;
	int status;

	if (options_parse(argc, argv, &o, &status) != 0)
		return status;
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	if (o.attach != NULL)
		return run_attached(&o);
	own_eal = o.eal_argv != argv;
	if (o.json)
		answers_in_json();
	if (rte_eal_init(o.eal_argc, o.eal_argv) < 0) {
		fprintf(stderr, "uroce-test: DPDK's EAL doesn't start: %s. The lines above say more; without EAL options "
			"it needs neither hugepages nor privileges\n", rte_strerror(rte_errno));
		return EXIT_FAILURE;
	}
	if (own_eal)
		own_dirs_clean(rte_eal_get_runtime_dir(), "uroce-test-");
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	status = EXIT_FAILURE;
	if (hosts_start(&o) == 0) {
		command_before(workloads_reap);
		command_describe(banner_describe);
		shell_idle(workloads_due, workloads_reap);
		shell_echo(o.echo);
		log_through_shell();
		workloads_period(o.stats_period);
		status = run_commands(&o);
		workloads_stop_all();
		capture_end();
		objects_destroy_all();
	}
	hosts_stop();
	/*
	 * rte_eal_cleanup() isn't called: in DPDK 22.11 it unmaps memory that EAL's interrupt thread may still be
	 * reading after a memif disconnect. The end of the process cleans up as well.
	 */
	if (own_eal)
		own_dir_remove(rte_eal_get_runtime_dir());
	return status;
}
