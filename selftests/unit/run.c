/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rf_run() without a kernel that enforces: an ordinary file stands for the
 * session's cgroup.procs.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "user/cleanup.h"
#include "user/run.h"

static char procs[] = "/tmp/rf-run-XXXXXX";

static int setup(void **state)
{
	int fd = mkstemp(procs);

	(void)state;
	if (fd < 0)
		return -1;
	return close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(procs);
}

static int run_in(const char *file, const char *const *argv, struct rf_diags *diags,
		  int *ret_status)
{
	_cleanup_fd_ int fd = open(file, O_WRONLY | O_CLOEXEC | O_TRUNC);
	struct rf_run_identity identity;
	struct rf_run run = {
		.argv = (char *const *)(uintptr_t)argv,
		.cgroup_procs = fd,
		.watch_fd = -1,
	};
	int r;

	assert_true(fd >= 0);
	assert_int_equal(rf_run_identity(NULL, diags, &identity), 0);
	/* Whoever runs the tests, the command is to run as the same. */
	identity.change = false;
	r = rf_run(&run, &identity, diags, ret_status);
	rf_run_identity_done(&identity);
	return r;
}

static int status_of(const char *const *argv, struct rf_diags *diags)
{
	int status = -1;

	assert_int_equal(run_in(procs, argv, diags, &status), 0);
	return status;
}

static int status_of_shell(const char *script)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	int status = status_of((const char *const[]){"sh", "-c", script, NULL}, &diags);

	assert_int_equal(diags.n, 0);
	return status;
}

static void status_passes(void **state)
{
	(void)state;
	assert_int_equal(status_of_shell("exit 0"), 0);
	assert_int_equal(status_of_shell("exit 7"), 7);
	assert_int_equal(status_of_shell("exit 255"), 255);
}

static void signal_is_a_status(void **state)
{
	(void)state;
	assert_int_equal(status_of_shell("kill -KILL $$"), 128 + SIGKILL);
	assert_int_equal(status_of_shell("kill -TERM $$"), 128 + SIGTERM);
}

static void child_enters_first(void **state)
{
	char text[8];
	int fd;

	(void)state;
	assert_int_equal(status_of_shell("exit 0"), 0);
	fd = open(procs, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), 1);
	assert_int_equal(text[0], '0');
	close(fd);
}

/* What cannot enter does not run. */
static void no_entry_no_command(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	char ran[] = "/tmp/rf-ran-XXXXXX";
	int fd = mkstemp(ran), status = -1;
	const char *argv[] = {"rm", ran, NULL};

	(void)state;
	close(fd);
	assert_int_equal(run_in("/dev/full", argv, &diags, &status), -ENOSPC);
	assert_int_equal(diags.errors, 1);
	assert_int_equal(access(ran, F_OK), 0);
	assert_int_equal(unlink(ran), 0);
}

static void exec_failures(void **state)
{
	_cleanup_diags_ struct rf_diags missing = {0}, mode = {0}, folder = {0};

	(void)state;
	assert_int_equal(status_of((const char *const[]){"no-such-command-here", NULL}, &missing),
			 127);
	assert_non_null(strstr(missing.items[0].message, "no-such-command-here"));
	assert_int_equal(status_of((const char *const[]){procs, NULL}, &mode), 126);
	assert_int_equal(mode.errors, 1);
	assert_int_equal(status_of((const char *const[]){"/tmp", NULL}, &folder), 126);
	assert_int_equal(folder.errors, 1);
}

static void script_without_interpreter_line(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	char script[] = "/tmp/rf-script-XXXXXX";
	int fd = mkstemp(script);

	(void)state;
	assert_int_equal(write(fd, "exit 9\n", 7), 7);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	assert_int_equal(status_of((const char *const[]){script, NULL}, &diags), 9);
	assert_int_equal(unlink(script), 0);
}

static void descriptors_are_closed(void **state)
{
	int fd = open("/dev/null", O_RDONLY); /* NOLINT: inherited on purpose */

	(void)state;
	assert_true(fd > 2);
	/* 0 to 2, and the one by which ls reads the folder. */
	assert_int_equal(status_of_shell("test $(ls /proc/self/fd | wc -l) -eq 4"), 0);
	assert_int_equal(status_of_shell("test ! -e /proc/self/fd/3"), 0);
	close(fd);
}

static void no_new_privs(void **state)
{
	(void)state;
	assert_int_equal(status_of_shell("grep -q '^NoNewPrivs:.*1$' /proc/self/status"), 0);
}

static void environment_passes(void **state)
{
	(void)state;
	assert_int_equal(setenv("RF_TEST", "a b", 1), 0);
	assert_int_equal(status_of_shell("test \"$RF_TEST\" = 'a b'"), 0);
}

static void ignored_chld(void **state)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old, now;

	(void)state;
	assert_int_equal(sigaction(SIGCHLD, &ignore, &old), 0);
	assert_int_equal(status_of_shell("exit 3"), 3);
	assert_int_equal(sigaction(SIGCHLD, &old, &now), 0);
	assert_true(now.sa_handler == SIG_IGN);
}

/* A process of its own to be signalled or to close descriptors in; its exit status is the command's. */
static pid_t runner(const char *script, void (*prepare)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		const char *const argv[] = {"sh", "-c", script, NULL};
		struct rf_run_identity identity = {0};
		struct rf_diags diags = {0};
		int status = 99;
		struct rf_run run = {.argv = (char *const *)(uintptr_t)argv, .watch_fd = -1};

		if (prepare)
			prepare();
		if (rf_run_stdio() < 0)
			_exit(98);
		run.cgroup_procs = open(procs, O_WRONLY | O_CLOEXEC);
		if (rf_run(&run, &identity, &diags, &status) < 0)
			_exit(97);
		_exit(status);
	}
	assert_true(pid > 0);
	return pid;
}

static int wait_exit(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void close_all(void)
{
	for (int fd = 0; fd < 3; fd++)
		close(fd);
}

static void closed_stdio(void **state)
{
	(void)state;
	assert_int_equal(wait_exit(runner("test /proc/self/fd/0 -ef /dev/null &&"
					  "test /proc/self/fd/1 -ef /dev/null &&"
					  "test /proc/self/fd/2 -ef /dev/null && exit 5",
					  close_all)),
			 5);
}

/* Until the script has made the file `ready`. */
static void wait_for_file(const char *ready)
{
	for (int i = 0; access(ready, F_OK) < 0; i++) {
		assert_true(i < 1000);
		usleep(10000);
	}
	assert_int_equal(unlink(ready), 0);
}

static void signals_pass(void **state)
{
	static const int signals[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		char ready[64], script[256];
		pid_t pid;

		snprintf(ready, sizeof(ready), "%s.ready", procs);
		snprintf(script, sizeof(script),
			 "trap 'exit 42' %d; touch %s; while :; do sleep 0.05; done", signals[i],
			 ready);
		pid = runner(script, NULL);
		wait_for_file(ready);
		assert_int_equal(kill(pid, signals[i]), 0);
		assert_int_equal(wait_exit(pid), 42);
	}
}

static void new_group(void)
{
	setpgid(0, 0);
}

/* Stops with its child, and goes on with it. */
static void stop_and_continue(void **state)
{
	pid_t pid = runner("kill -STOP $$; exit 6", new_group);
	int status;

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(wait_exit(pid), 6);
}

static void new_session(void)
{
	setsid();
}

/* Where no shell could continue it, it does not stop: whoever stopped the child continues that. */
static void stop_without_shell(void **state)
{
	char pid_file[64], script[256];
	int status, child = 0;
	FILE *file;
	pid_t pid;

	(void)state;
	snprintf(pid_file, sizeof(pid_file), "%s.pid", procs);
	snprintf(script, sizeof(script), "echo $$ > %s.new; mv %s.new %s; kill -STOP $$; exit 6",
		 pid_file, pid_file, pid_file);
	pid = runner(script, new_session);
	for (int i = 0; !(file = fopen(pid_file, "re")); i++) {
		assert_true(i < 1000);
		usleep(10000);
	}
	assert_int_equal(fscanf(file, "%d", &child), 1);
	fclose(file);
	assert_int_equal(unlink(pid_file), 0);
	/* Until it has ended, however soon before its stop it is continued. */
	for (int i = 0; waitpid(pid, &status, WNOHANG | WUNTRACED) == 0; i++) {
		assert_true(i < 1000);
		kill(child, SIGCONT);
		usleep(10000);
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 6);
}

static bool count_and_stop(void *userdata)
{
	int *calls = userdata;

	++*calls;
	return false;
}

static void watch(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	const char *const argv[] = {"sleep", "0.2", NULL};
	struct rf_run_identity identity = {0};
	int fds[2], calls = 0, status = -1;
	struct rf_run run = {
		.argv = (char *const *)(uintptr_t)argv,
		.readable = count_and_stop,
		.userdata = &calls,
	};

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	close(fds[1]); /* readable for ever: the end of the stream */
	run.watch_fd = fds[0];
	run.cgroup_procs = open(procs, O_WRONLY | O_CLOEXEC);
	assert_int_equal(rf_run(&run, &identity, &diags, &status), 0);
	assert_int_equal(status, 0);
	assert_int_equal(calls, 1);
	close(run.cgroup_procs);
	close(fds[0]);
}

static void identity_by_name_and_number(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	struct rf_run_identity id;

	(void)state;
	assert_int_equal(rf_run_identity("no-such-user-here", &diags, &id), -ENOENT);
	assert_int_equal(rf_run_identity("-1", &diags, &id), -ENOENT);
	assert_int_equal(rf_run_identity("4294967295", &diags, &id), -ENOENT);
	assert_int_equal(rf_run_identity("12x", &diags, &id), -ENOENT);
	assert_int_equal(rf_run_identity("", &diags, &id), -ENOENT);
	assert_int_equal(diags.errors, 5);

	if (geteuid() != 0) {
		assert_int_equal(rf_run_identity("0", &diags, &id), -EPERM);
		return;
	}
	assert_int_equal(rf_run_identity("nobody", &diags, &id), 0);
	assert_string_equal(id.name, "nobody");
	assert_true(id.change);
	rf_run_identity_done(&id);
	assert_int_equal(rf_run_identity("54321", &diags, &id), 0);
	assert_int_equal(id.uid, 54321);
	assert_int_equal(id.gid, 54321);
	assert_int_equal(id.n_groups, 0);
	assert_null(id.home);
	rf_run_identity_done(&id);

	assert_int_equal(setenv("SUDO_UID", "54321", 1), 0);
	assert_int_equal(rf_run_identity(NULL, &diags, &id), 0);
	assert_int_equal(id.uid, 54321);
	rf_run_identity_done(&id);
	assert_int_equal(unsetenv("SUDO_UID"), 0);
}

static void becomes_the_user(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	const char *const argv[] = {"sh", "-c",
				    "test $(id -u) = $(id -u nobody) && test $(id -Gn) = nogroup &&"
				    "test $HOME = /nonexistent && test $USER = nobody &&"
				    "test $LOGNAME = nobody && exit 8",
				    NULL};
	struct rf_run run = {.argv = (char *const *)(uintptr_t)argv, .watch_fd = -1};
	struct rf_run_identity identity;
	int status = -1;

	(void)state;
	if (geteuid() != 0)
		skip();
	run.cgroup_procs = open(procs, O_WRONLY | O_CLOEXEC);
	assert_int_equal(rf_run_identity("nobody", &diags, &identity), 0);
	assert_int_equal(rf_run(&run, &identity, &diags, &status), 0);
	assert_int_equal(status, 8);
	rf_run_identity_done(&identity);
	close(run.cgroup_procs);
}

int main(void)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_passes),
		cmocka_unit_test(signal_is_a_status),
		cmocka_unit_test(child_enters_first),
		cmocka_unit_test(no_entry_no_command),
		cmocka_unit_test(exec_failures),
		cmocka_unit_test(script_without_interpreter_line),
		cmocka_unit_test(descriptors_are_closed),
		cmocka_unit_test(no_new_privs),
		cmocka_unit_test(environment_passes),
		cmocka_unit_test(ignored_chld),
		cmocka_unit_test(closed_stdio),
		cmocka_unit_test(signals_pass),
		cmocka_unit_test(stop_and_continue),
		cmocka_unit_test(stop_without_shell),
		cmocka_unit_test(watch),
		cmocka_unit_test(identity_by_name_and_number),
		cmocka_unit_test(becomes_the_user),
	};

	/* Under nohup, or behind a shell's `&`, these are ignored, and a command inherits that. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		signal(signals[i], SIG_DFL);
	return cmocka_run_group_tests_name("run", tests, setup, teardown);
}
