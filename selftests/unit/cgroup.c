/* SPDX-License-Identifier: BSD-2-Clause */
/* The cgroups of sessions, on the machine's own cgroup v2 hierarchy. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cgroup.h"
#include "user/cleanup.h"

#include "selftests/unit/scratch.h"

static void found(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_free_ char *root = NULL;
	char mount[128];

	(void)state;
	scratch_write("mountinfo",
		      "1 0 8:1 / / rw - ext4 /dev/a rw\n"
		      "2 1 0:5 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
		      "3 2 0:6 / /nowhere rw shared:1 master:2 - cgroup2 cgroup2 rw\n"
		      "4 2 0:6 / %s/a\\040b rw shared:1 - cgroup2 cgroup2 rw\n",
		      scratch);
	snprintf(mount, sizeof(mount), "%s/a b", scratch);
	assert_int_equal(mkdir(mount, 0700), 0);
	assert_int_equal(rf_cgroup_root(scratch_path("mountinfo"), &diags, &root), 0);
	assert_string_equal(root, scratch_path("a b/ringfence"));
	assert_int_equal(access(root, W_OK), 0);
}

static void none(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	char *root;

	(void)state;
	scratch_write("v1", "2 1 0:5 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\nbad\n\n");
	assert_int_equal(rf_cgroup_root(scratch_path("v1"), &diags, &root), -EOPNOTSUPP);
	assert_int_equal(diags.errors, 1);
	assert_non_null(strstr(diags.items[0].message, "there is no cgroup v2 hierarchy"));
	assert_non_null(strstr(diags.items[0].hint, "mount -t cgroup2"));
	scratch_write("ro", "3 2 0:6 / /nowhere/at/all rw - cgroup2 cgroup2 rw\n");
	assert_int_equal(rf_cgroup_root(scratch_path("ro"), &diags, &root), -EOPNOTSUPP);
	assert_int_equal(diags.errors, 2);
	assert_non_null(strstr(diags.items[1].message, "the cgroup v2 hierarchy cannot be used: "));
	assert_int_equal(rf_cgroup_root(scratch_path("absent"), &diags, &root), -ENOENT);
	assert_int_equal(diags.errors, 3);
}

static void life(void **state)
{
	struct rf_session_cgroup cgroup, again;
	struct rf_diags diags = {0};
	char *root = scratch_cgroup_root(), child[256];
	struct pollfd poller = {.events = POLLPRI};
	pid_t pid[2];
	int procs;

	(void)state;
	if (!root)
		skip();
	assert_int_equal(rf_cgroup_create(root, "unit-life", &diags, &cgroup), 0);
	assert_int_equal(rf_cgroup_create(root, "unit-life", &diags, &again), -EEXIST);
	assert_int_equal(diags.n, 0);
	assert_int_equal(rf_cgroup_open(cgroup.path, cgroup.id + 1, &again), -ESTALE);
	assert_int_equal(rf_cgroup_open("/nowhere", 1, &again), -ENOENT);
	assert_int_equal(rf_cgroup_open(cgroup.path, cgroup.id, &again), 0);
	assert_int_equal(rf_cgroup_populated(&cgroup), 0);
	assert_int_equal(rf_cgroup_count(&cgroup), 0);

	/* One task in it, one in a child of a child. */
	procs = rf_cgroup_procs(&cgroup);
	assert_true(procs >= 0);
	pid[0] = scratch_sleeper(procs);
	close(procs);
	snprintf(child, sizeof(child), "%s/a", cgroup.path);
	assert_int_equal(mkdir(child, 0700), 0);
	snprintf(child, sizeof(child), "%s/a/b", cgroup.path);
	assert_int_equal(mkdir(child, 0700), 0);
	snprintf(child, sizeof(child), "%s/a/b/cgroup.procs", cgroup.path);
	procs = open(child, O_WRONLY | O_CLOEXEC);
	pid[1] = scratch_sleeper(procs);
	close(procs);
	assert_int_equal(rf_cgroup_populated(&cgroup), 1);
	assert_int_equal(rf_cgroup_count(&cgroup), 2);
	assert_int_equal(rf_cgroup_remove(&cgroup), -EBUSY);
	assert_int_equal(access(child, F_OK), 0); /* nothing has been removed */

	assert_int_equal(rf_cgroup_kill(&cgroup), 0);
	poller.fd = cgroup.events;
	for (int i = 0; i < 100 && rf_cgroup_populated(&cgroup); i++)
		poll(&poller, 1, 100);
	assert_int_equal(rf_cgroup_populated(&cgroup), 0);
	/* Not waited for yet: zombies do not hold it. */
	assert_int_equal(rf_cgroup_remove(&cgroup), 0);
	assert_int_equal(access(cgroup.path, F_OK), -1);
	assert_int_equal(rf_cgroup_remove(&cgroup), 0);
	assert_int_equal(rf_cgroup_populated(&again), 0);
	for (int i = 0; i < 2; i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(WTERMSIG(status), SIGKILL);
	}
	rf_cgroup_done(&cgroup);
	rf_cgroup_done(&again);
	assert_int_equal(rf_cgroup_create("/nowhere", "x", &diags, &cgroup), -ENOENT);
	assert_int_equal(diags.errors, 1);
	rf_diags_done(&diags);
}

static void sweep(void **state)
{
	struct rf_session_cgroup empty, full;
	struct rf_diags diags = {0};
	char *root = scratch_cgroup_root();
	int procs;
	pid_t pid;

	(void)state;
	if (!root)
		skip();
	assert_int_equal(rf_cgroup_create(root, "unit-empty", &diags, &empty), 0);
	assert_int_equal(rf_cgroup_create(root, "unit-full", &diags, &full), 0);
	procs = rf_cgroup_procs(&full);
	pid = scratch_sleeper(procs);
	close(procs);
	rf_cgroup_sweep(root);
	assert_int_equal(access(empty.path, F_OK), -1);
	assert_int_equal(access(full.path, F_OK), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(rf_cgroup_remove(&full), 0);
	rf_cgroup_done(&empty);
	rf_cgroup_done(&full);
}

/* ---- limits ----------------------------------------------------------- */

static void expect_text(const char *name, const char *wanted)
{
	_cleanup_fd_ int fd = open(scratch_path(name), O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	assert_true(n >= 0);
	text[n] = 0;
	assert_string_equal(text, wanted);
}

/* A hierarchy of plain files: TOP has two controllers, ROOT none yet. */
static void limits(void **state)
{
	struct rf_limits limits = {
		.memory = 5 << 20, .tasks = 7, .cpu = 1500, .cpu_at = {"p.yaml", 3, 5}};
	struct rf_session_cgroup cgroup = RF_SESSION_CGROUP_NONE;
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_fd_ int fd = -1;
	char root[128];

	(void)state;
	snprintf(root, sizeof(root), "%s/top/rf", scratch);
	assert_int_equal(mkdir(scratch_path("top"), 0700), 0);
	assert_int_equal(mkdir(scratch_path("top/rf"), 0700), 0);
	assert_int_equal(mkdir(scratch_path("top/rf/s"), 0700), 0);
	scratch_write("top/cgroup.controllers", "io memory pids\n");
	scratch_write("top/cgroup.subtree_control", "%s", "");
	scratch_write("top/rf/cgroup.controllers", "%s", "");
	scratch_write("top/rf/cgroup.subtree_control", "%s", "");
	scratch_write("top/rf/s/memory.max", "%s", "");
	scratch_write("top/rf/s/memory.swap.max", "%s", "");
	fd = open(scratch_path("top/rf/s"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup.fd = fd;
	assert_true(rf_cgroup_has_controller(root, "pids"));
	assert_false(rf_cgroup_has_controller(root, "pid"));
	assert_false(rf_cgroup_has_controller(root, "cpu"));
	assert_false(rf_cgroup_has_controller(scratch, "pids"));

	/* Enabled from the top down; these files then do not grow as the kernel's would. */
	assert_int_equal(rf_cgroup_limit(root, &cgroup, &limits, &diags), -ENOENT);
	assert_non_null(strstr(diags.items[0].message, "cannot set the limit `tasks`"));
	expect_text("top/rf/s/memory.max", "5242880");
	expect_text("top/rf/s/memory.swap.max", "0");
	expect_text("top/cgroup.subtree_control", "+pids");
	expect_text("top/rf/cgroup.subtree_control", "+pids");

	/* Without the controller: refused at the limit's place. */
	scratch_write("top/rf/s/pids.max", "%s", "");
	assert_int_equal(rf_cgroup_limit(root, &cgroup, &limits, &diags), -EOPNOTSUPP);
	expect_text("top/rf/s/pids.max", "7");
	assert_int_equal(diags.errors, 2);
	assert_string_equal(diags.items[1].file, "p.yaml");
	assert_int_equal(diags.items[1].line, 3);
	assert_non_null(
		strstr(diags.items[1].message, "hierarchy does not have the controller \"cpu\""));

	scratch_write("top/rf/s/cpu.max", "%s", "");
	assert_int_equal(rf_cgroup_limit(root, &cgroup, &limits, &diags), 0);
	expect_text("top/rf/s/cpu.max", "150000 100000");

	/* Lifted. What is not there needs not be lifted. */
	scratch_write("top/rf/s/memory.max", "%s", "");
	unlink(scratch_path("top/rf/s/cpu.max"));
	limits = (struct rf_limits){0};
	assert_int_equal(rf_cgroup_limit(root, &cgroup, &limits, &diags), 0);
	expect_text("top/rf/s/memory.max", "max");
	assert_int_equal(diags.errors, 2);
}

static void hits(void **state)
{
	struct rf_session_cgroup cgroup = RF_SESSION_CGROUP_NONE;
	_cleanup_fd_ int fd = -1;

	(void)state;
	assert_int_equal(mkdir(scratch_path("hits"), 0700), 0);
	fd = open(scratch_path("hits"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup.fd = fd;
	assert_int_equal(rf_cgroup_hits(&cgroup).killed, 0);
	assert_int_equal(rf_cgroup_hits(&cgroup).refused, 0);
	scratch_write("hits/memory.events",
		      "low 1\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 7\n");
	scratch_write("hits/pids.events", "max 21\n");
	assert_int_equal(rf_cgroup_hits(&cgroup).killed, 3);
	assert_int_equal(rf_cgroup_hits(&cgroup).refused, 21);
	/* The machine had no memory left; the session's limit was not reached. */
	scratch_write("hits/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 3\n");
	assert_int_equal(rf_cgroup_hits(&cgroup).killed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found), cmocka_unit_test(none),   cmocka_unit_test(life),
		cmocka_unit_test(sweep), cmocka_unit_test(limits), cmocka_unit_test(hits),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
