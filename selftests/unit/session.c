/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of sessions on a kernel side of memory (fake_kernel.h) and real cgroups:
 * start, events, end, failures at each step, restart of the daemon.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/session.h"

#include "selftests/unit/fake_image.h"
#include "selftests/unit/fake_kernel.h"
#include "selftests/unit/scratch.h"

static sd_event *loop;
static struct rf_sessions *sessions;
static struct rf_kernel *kernel;
static void *image;
static size_t image_size;
static int me; /* an owner */
static unsigned int events, unlogged, ends, end_errors;
static json_t *last_event;
static struct rf_session_totals last_totals;
static char complaints[8192], run_dir[128], log_dir[128];

static void on_event(void *userdata, struct rf_live_session *session, json_t *event, bool logged)
{
	(void)userdata;
	assert_string_equal(json_string_value(json_object_get(event, "session")),
			    rf_session_state(session)->name);
	events++;
	unlogged += !logged;
	json_decref(last_event);
	last_event = json_incref(event);
}

static void on_end(void *userdata, struct rf_live_session *session, int error,
		   const struct rf_session_totals *totals)
{
	(void)userdata;
	(void)session;
	if (error)
		end_errors++;
	else
		ends++;
	last_totals = *totals;
}

static void on_log(void *userdata, int priority, const char *text)
{
	size_t n = strlen(complaints);

	(void)userdata;
	(void)priority;
	snprintf(complaints + n, sizeof(complaints) - n, "%s\n", text);
}

static void open_sessions(void)
{
	struct rf_diags diags = {0};
	struct rf_sessions_config config = {
		.event = loop,
		.run_dir = run_dir,
		.log_dir = log_dir,
		.cgroup_root = scratch_root,
		.end_usec = 3000000,
		.on_event = on_event,
		.on_end = on_end,
		.log = on_log,
	};

	snprintf(run_dir, sizeof(run_dir), "%s/run", scratch);
	snprintf(log_dir, sizeof(log_dir), "%s/log", scratch);
	assert_int_equal(rf_kernel_open("", &diags, &kernel), 0);
	config.kernel = kernel;
	assert_int_equal(rf_sessions_new(&config, &sessions), 0);
	*complaints = 0;
}

static void close_sessions(void)
{
	rf_sessions_free(sessions);
	rf_kernel_close(kernel);
}

static int setup(void **state)
{
	if (scratch_setup(state) || mkdir(scratch_path("run"), 0700) ||
	    mkdir(scratch_path("log"), 0700))
		return -1;
	scratch_cgroup_root();
	image = fake_image(&image_size);
	if (sd_event_new(&loop) < 0)
		return -1;
	if (scratch_root)
		open_sessions();
	events = unlogged = ends = end_errors = 0;
	return 0;
}

static int teardown(void **state)
{
	if (scratch_root)
		close_sessions();
	sd_event_unref(loop);
	json_decref(last_event);
	last_event = NULL;
	free(image);
	fake_reset();
	return scratch_teardown(state);
}

/* Run the loop until *count is n, at most for some seconds. */
static void run_until(const unsigned int *count, unsigned int n)
{
	for (int i = 0; i < 100 && *count != n; i++)
		assert_true(sd_event_run(loop, 100000) >= 0);
	assert_int_equal(*count, n);
}

static void run_for(uint64_t usec)
{
	uint64_t begin, now;

	sd_event_now(loop, CLOCK_MONOTONIC, &begin);
	do {
		assert_true(sd_event_run(loop, 20000) >= 0);
		sd_event_now(loop, CLOCK_MONOTONIC, &now);
	} while (now - begin < usec);
}

static struct rf_identity identity_of(const char *path)
{
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct rf_identity identity;

	assert_int_equal(rf_kernel_identify(kernel, &fd, 1, &identity), 0);
	return identity;
}

static int try_start(struct rf_session_name *names, size_t n, struct rf_diags *diags,
		     struct rf_live_session **ret_session, int *ret_exit)
{
	_cleanup_json_ json_t *command = json_pack("[s, s]", "make", "-j2");
	const struct rf_session_request request = {
		.policy = "unit test",
		.policy_file = "/p.yaml",
		.user = "root",
		.command = command,
		.pid = getpid(),
		.image = image,
		.image_size = image_size,
		.names = names,
		.n_names = n,
	};

	return rf_sessions_start(sessions, &request, &me, diags, ret_session, ret_exit);
}

static struct rf_live_session *start(void)
{
	struct rf_session_name names[] = {
		{.path = "/", .identity = identity_of("/")},
		{.path = "/tmp", .identity = identity_of("/tmp")},
	};
	struct rf_live_session *session;
	struct rf_diags diags = {0};
	int code;

	assert_int_equal(try_start(names, 2, &diags, &session, &code), 0);
	assert_int_equal(diags.n, 0);
	return session;
}

static pid_t put_sleeper(struct rf_live_session *session)
{
	_cleanup_fd_ int procs = rf_session_procs(session);

	assert_true(procs >= 0);
	return scratch_sleeper(procs);
}

static void expect_killed(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static unsigned int files_in(const char *path)
{
	_cleanup_dir_ DIR *dir = opendir(path);
	unsigned int n = 0;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	return n;
}

static unsigned int cgroups(void)
{
	_cleanup_dir_ DIR *dir = opendir(scratch_root);
	unsigned int n = 0;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		n += entry->d_type == DT_DIR && entry->d_name[0] != '.';
	return n;
}

/* The anchors of a session but for the kernel's own file systems, which all have. */
static size_t anchors_of(const struct rf_session_state *state)
{
	size_t n = 0;

	for (size_t i = 0; i < state->n_anchors; i++)
		n += state->anchors[i].key.subvol != RF_SUBVOL_TYPE;
	return n;
}

static void nothing_left(void)
{
	assert_int_equal(rf_sessions_count(sessions), 0);
	assert_int_equal(fake_images(), 0);
	assert_int_equal(fake_sessions(), 0);
	assert_int_equal(fake.n_anchors, 0);
	assert_int_equal(cgroups(), 0);
	assert_int_equal(files_in(scratch_path("run/sessions")), 0);
}

/* ---- tests ----------------------------------------------------------- */

static void life(void **state)
{
	const struct rf_session_state *s;
	struct rf_session_totals totals;
	struct rf_live_session *session;
	_cleanup_json_ json_t *list = NULL, *logged = NULL;
	char log[256];
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	s = rf_session_state(session);
	assert_memory_equal(s->name, "unit_test-", 10);
	assert_int_equal(strlen(s->name), 16);
	assert_ptr_equal(rf_sessions_find(sessions, s->name), session);
	assert_int_equal(fake_images(), 1);
	assert_int_equal(anchors_of(rf_session_state(session)), 2);
	assert_int_equal(fake.sessions[0].word,
			 RF_WORD(fake.next_policy, s->image.class, s->image.slot, 0));
	assert_int_equal(files_in(scratch_path("run/sessions")), 1);
	/* The states after "/" and "/tmp": none and four steps from the first. */
	assert_int_equal(RF_NAME_STATE(fake.anchors[0].anchor.name[0]), 1);
	assert_int_equal(RF_NAME_STATE(fake.anchors[1].anchor.name[0]), 5);
	/* Owned, it may be empty. */
	run_for(300000);
	assert_int_equal(ends, 0);
	pid = put_sleeper(session);

	fake_event(s->kernel.id, &fake.anchors[1].key, 0, "/x");
	run_until(&events, 1);
	assert_string_equal(json_string_value(json_object_get(last_event, "path")), "/tmp/x");
	assert_int_equal(json_integer_value(json_object_get(last_event, "seq")), 1);
	snprintf(log, sizeof(log), "%s", s->log);
	logged = json_load_file(log, 0, NULL);
	assert_true(json_equal(logged, last_event));
	fake_event(999, NULL, 0, ""); /* of nobody */
	fake_event(s->kernel.id, &fake.anchors[0].key, 0, "/etc");
	run_until(&events, 2);
	assert_non_null(strstr(complaints, "session 999"));
	fake.counters[s->kernel.slot].denied[RF_REASON_RULE] = 2;

	list = rf_sessions_list(sessions);
	assert_int_equal(json_array_size(list), 1);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "tasks")), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "mode")),
			    "enforce");

	/* An event that is in the ring when the last task dies is not missed. */
	fake_event(s->kernel.id, NULL, 0, "/late");
	assert_int_equal(rf_session_end(session, false, &totals), 0);
	run_until(&ends, 1);
	assert_int_equal(events, 3);
	assert_int_equal(last_totals.denied, 2);
	assert_int_equal(last_totals.killed, 1);
	assert_int_equal(last_totals.lost, 0);
	expect_killed(pid);
	nothing_left();
	assert_int_equal(access(log, F_OK), 0);
}

static void kept(void **state)
{
	struct rf_session_totals totals;
	struct rf_live_session *session;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	/* Empty: it ends at once. */
	assert_int_equal(rf_session_end(start(), true, &totals), 0);
	assert_int_equal(ends, 1);
	nothing_left();
	session = start();
	pid = put_sleeper(session);
	assert_int_equal(rf_session_end(session, true, &totals), 1);
	assert_int_equal(totals.killed, 0);
	run_for(300000);
	assert_int_equal(ends, 1);
	assert_int_equal(kill(pid, 0), 0);
	/* It ends with its last task. */
	kill(pid, SIGKILL);
	expect_killed(pid);
	run_until(&ends, 2);
	nothing_left();
}

static void lost(void **state)
{
	struct rf_session_totals totals;
	struct rf_live_session *session;
	struct rf_counters *counters;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	counters = &fake.counters[rf_session_state(session)->kernel.slot];
	counters->lost[RF_LOSS_RING] = 5;
	run_until(&events, 1);
	assert_string_equal(json_string_value(json_object_get(last_event, "op")), "lost");
	assert_int_equal(json_integer_value(json_object_get(last_event, "count")), 5);
	run_for(1200000); /* told once */
	assert_int_equal(events, 1);
	counters->lost[RF_LOSS_RATE] = 3;
	run_until(&events, 2);
	assert_string_equal(json_string_value(json_object_get(last_event, "reason")), "rate");
	assert_int_equal(json_integer_value(json_object_get(last_event, "count")), 3);
	counters->lost[RF_LOSS_RING] = 7;
	rf_session_end(session, false, &totals);
	run_until(&ends, 1);
	assert_int_equal(events, 3);
	assert_string_equal(json_string_value(json_object_get(last_event, "reason")), "ring-full");
	assert_int_equal(json_integer_value(json_object_get(last_event, "count")), 2);
	assert_int_equal(last_totals.lost, 10);
}

static void expect_count(const char *path, json_int_t count)
{
	assert_string_equal(json_string_value(json_object_get(last_event, "path")), path);
	assert_string_equal(json_string_value(json_object_get(last_event, "verdict")), "deny");
	assert_int_equal(json_integer_value(json_object_get(last_event, "count")), count);
	assert_int_equal(json_integer_value(json_object_get(last_event, "seq")), events);
}

/* What the kernel counted in a cell is told with the event that the cell belongs to. */
static void repeats(void **state)
{
	const uint64_t one = 0x1000000000a, two = 0x20000000007;
	struct rf_session_totals totals;
	struct rf_live_session *session;
	struct rf_meter *meter;
	uint64_t id, *cells;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	id = rf_session_state(session)->kernel.id;
	meter = &fake.meters[rf_session_state(session)->kernel.slot];
	cells = (uint64_t *)meter->stream[RF_STREAM_DENIALS].repeats;
	fake_event(id, NULL, 0, "/one")->tag = one;
	fake_event(id, NULL, 0, "/two")->tag = two;
	run_until(&events, 2);
	expect_count("/two", 1);
	cells[40] = RF_REPEAT_TAG(one) | 7;
	cells[3] = RF_REPEAT_TAG(two);
	run_until(&events, 3);
	expect_count("/one", 7);
	assert_int_equal(cells[40], RF_REPEAT_TAG(one));
	cells[40] += 2;
	run_until(&events, 4);
	expect_count("/one", 2);
	/* Cells that stay at 0 are emptied, and their events forgotten. */
	run_for(3500000);
	assert_int_equal(events, 4);
	assert_true(!cells[40] && !cells[3]);

	/* The event of a cell may still be in the ring. */
	cells[9] = RF_REPEAT_TAG(two) | 5;
	fake_event(id, NULL, 0, "/two")->tag = two;
	run_until(&events, 6);
	expect_count("/two", 5);
	/* An earlier daemon may have read it: then only the number is known. */
	cells[11] = RF_REPEAT_TAG(one) | 4;
	run_until(&events, 7);
	assert_string_equal(json_string_value(json_object_get(last_event, "op")), "lost");
	assert_string_equal(json_string_value(json_object_get(last_event, "reason")), "forgotten");
	assert_int_equal(json_integer_value(json_object_get(last_event, "count")), 4);
	assert_int_equal(cells[11], 0);

	/* At the end, at once. */
	fake_event(id, NULL, 0, "/three")->tag = one;
	cells[11] = RF_REPEAT_TAG(one) | 6;
	rf_session_end(session, false, &totals);
	assert_int_equal(ends, 1);
	assert_int_equal(events, 9);
	expect_count("/three", 6);
	assert_int_equal(last_totals.lost, 4);
}

/* A daemon that leaves tells what it has counted, and the next one begins anew. */
static void repeats_left(void **state)
{
	const uint64_t tag = 0x3000000;
	struct rf_live_session *session;
	uint64_t *cell;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	cell = (uint64_t *)&fake.meters[rf_session_state(session)->kernel.slot]
		       .stream[RF_STREAM_OTHERS]
		       .repeats[0];
	fake_event(rf_session_state(session)->kernel.id, NULL, 0, "/x")->tag = tag;
	*cell = tag | 3;
	close_sessions();
	assert_int_equal(events, 2);
	expect_count("/x", 3);
	assert_int_equal(*cell, 0);
	open_sessions();
	assert_int_equal(rf_sessions_take_over(sessions), 0);
}

/* A log without room: the session goes on, and the log says later what it lacks. */
static void full_log(void **state)
{
	const struct rf_session_state *s;
	struct rf_session_totals totals;
	struct rf_live_session *session;
	struct rlimit limit, none;
	_cleanup_free_ char *line = NULL;
	char log[256];
	size_t room = 0, lines = 0;
	FILE *file;

	(void)state;
	if (!scratch_root)
		skip();
	signal(SIGXFSZ, SIG_IGN);
	session = start();
	s = rf_session_state(session);
	fake_event(s->kernel.id, NULL, 0, "/1");
	run_until(&events, 1);
	getrlimit(RLIMIT_FSIZE, &limit);
	none = limit;
	none.rlim_cur = 500; /* in the middle of the second line */
	setrlimit(RLIMIT_FSIZE, &none);
	fake_event(s->kernel.id, NULL, 0, "/2");
	fake_event(s->kernel.id, NULL, 0, "/3");
	run_until(&events, 3);
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_int_equal(unlogged, 2);
	assert_non_null(strstr(complaints, "cannot write its log"));
	fake_event(s->kernel.id, NULL, 0, "/4");
	run_until(&events, 4);
	snprintf(log, sizeof(log), "%s", s->log);
	rf_session_end(session, false, &totals);
	assert_int_equal(last_totals.unlogged, 2);
	file = fopen(log, "re");
	assert_non_null(file);
	for (; getline(&line, &room, file) > 0; lines++) {
		_cleanup_json_ json_t *json = json_loads(line, 0, NULL);

		assert_non_null(json);
		/* 1, then 4 that says what is not there, then 5. */
		assert_int_equal(json_integer_value(json_object_get(json, "seq")),
				 lines ? lines + 3 : 1);
		if (lines == 1)
			assert_int_equal(json_integer_value(json_object_get(json, "count")), 2);
	}
	assert_int_equal(lines, 3);
	fclose(file);
}

/* ---- failures -------------------------------------------------------- */

static void expect_failure(int error, int code, const char *message)
{
	struct rf_session_name names[] = {
		{.path = "/", .identity = identity_of("/")},
		{.path = "/tmp", .identity = identity_of("/tmp")},
	};
	_cleanup_diags_ struct rf_diags diags = {0};
	struct rf_live_session *session = NULL;
	int got = 0;

	assert_int_equal(try_start(names, 2, &diags, &session, &got), error);
	assert_null(session);
	assert_int_equal(got, code);
	assert_true(diags.errors > 0);
	if (message)
		assert_non_null(strstr(diags.items[diags.n - 1].message, message));
	nothing_left();
	assert_int_equal(files_in(scratch_path("log")), 0);
	fake.fail = NULL;
}

static void failures(void **state)
{
	char *root = scratch_root;

	(void)state;
	if (!root)
		skip();
	fake_fail("put_image", -ENOSPC, 0);
	expect_failure(-ENOSPC, 1, "cannot start the session: ");
	fake_fail("add_anchor", -ENOMEM, 1);
	expect_failure(-ENOMEM, 1, "cannot anchor /tmp");
	fake_fail("add_anchor", -ENOSPC, 1);
	expect_failure(-ENOSPC, 1, "/tmp has more than 4 names");
	fake_fail("start_session", -ENOSPC, 0);
	expect_failure(-ENOSPC, 1, "cannot start another session");
	/* An image that is none. */
	((struct rf_image *)image)->checksum++;
	expect_failure(-EINVAL, 3, "broken image: ");
	((struct rf_image *)image)->checksum--;
	/* No place for logs, for states. */
	assert_int_equal(rename(scratch_path("run/sessions"), scratch_path("run/gone")), 0);
	assert_int_equal(rmdir(scratch_path("run/gone")), 0);
	expect_failure(-ENOENT, 1, "cannot write the session's state: ");
	assert_int_equal(rmdir(scratch_path("log")), 0);
	expect_failure(-ENOENT, 1, "cannot make the session's log: ");
}

static void no_cgroup(void **state)
{
	struct rf_diags diags = {0};

	(void)state;
	if (!scratch_root)
		skip();
	close_sessions();
	assert_int_equal(rmdir(scratch_root), 0);
	open_sessions();
	expect_failure(-ENOENT, 1, "cannot make the session's cgroup: ");
	rf_diags_done(&diags);
}

/* The fifth name of an object that the policy tells from the others. */
static void too_many_names(void **state)
{
	struct rf_session_name names[6] = {{.path = "/"},   {.path = "/a"},   {.path = "/aa"},
					   {.path = "/bb"}, {.path = "/aaa"}, {.path = "/aaaa"}};
	_cleanup_diags_ struct rf_diags diags = {0};
	struct rf_live_session *session;
	int code;

	(void)state;
	if (!scratch_root)
		skip();
	for (size_t i = 0; i < RF_COUNT(names); i++)
		names[i].identity = identity_of("/");
	assert_int_equal(try_start(names, 6, &diags, &session, &code), -ENOSPC);
	assert_non_null(strstr(diags.items[0].message, "/aaaa"));
	nothing_left();
	/* "/aa" and "/bb" are the same to it. */
	assert_int_equal(try_start(names, 5, &diags, &session, &code), 0);
	assert_int_equal(anchors_of(rf_session_state(session)), 4);
}

static void no_identity(void **state)
{
	struct rf_session_name names[] = {{.path = "/", .identity = identity_of("/")},
					  {.path = "/nfs"}};
	_cleanup_diags_ struct rf_diags diags = {0};
	struct rf_live_session *session;
	int code;

	(void)state;
	if (!scratch_root)
		skip();
	fake_fail("add_anchor", -EOPNOTSUPP, 1);
	assert_int_equal(try_start(names, 2, &diags, &session, &code), 0);
	assert_int_equal(diags.errors, 0);
	assert_non_null(strstr(diags.items[0].message,
			       "/nfs is on a file system whose objects cannot be recognised"));
	assert_int_equal(anchors_of(rf_session_state(session)), 1);
}

/* ---- restart --------------------------------------------------------- */

static void restart(void)
{
	close_sessions();
	open_sessions();
	assert_int_equal(rf_sessions_take_over(sessions), 0);
}

static void taken_over(void **state)
{
	const struct rf_session_state *s;
	struct rf_live_session *session;
	char name[64], ended[64];
	uint64_t id;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	snprintf(name, sizeof(name), "%s", rf_session_state(session)->name);
	id = rf_session_state(session)->kernel.id;
	pid = put_sleeper(session);
	fake_event(id, &fake.anchors[1].key, 0, "/1");
	run_until(&events, 1);
	session = start(); /* of this one the task is gone when the daemon comes back */
	snprintf(ended, sizeof(ended), "%s", rf_session_state(session)->name);

	restart();
	assert_true(rf_kernel_adopted(kernel));
	assert_int_equal(rf_sessions_count(sessions), 1);
	assert_null(rf_sessions_find(sessions, ended));
	assert_int_equal(fake_sessions(), 1);
	session = rf_sessions_find(sessions, name);
	assert_non_null(session);
	assert_null(rf_session_owner(session));
	s = rf_session_state(session);
	assert_int_equal(s->kernel.id, id);
	assert_int_equal(fake_images(), 1);
	/* Events go on with their numbers, paths and rules. */
	fake_event(id, &fake.anchors[1].key, 0, "/2");
	run_until(&events, 2);
	assert_int_equal(json_integer_value(json_object_get(last_event, "seq")), 2);
	assert_string_equal(json_string_value(json_object_get(last_event, "path")), "/tmp/2");
	assert_non_null(json_object_get(last_event, "rule"));
	/* It ends with its last task. */
	ends = 0;
	kill(pid, SIGKILL);
	expect_killed(pid);
	run_until(&ends, 1);
	nothing_left();
}

/* The daemon was killed: the state file has the seq of the start, the log knows better. */
static void taken_over_after_kill(void **state)
{
	struct rf_live_session *session;
	char file[64];
	uint64_t id;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	id = rf_session_state(session)->kernel.id;
	pid = put_sleeper(session);
	snprintf(file, sizeof(file), "run/sessions/%d.json", (int)id);
	assert_int_equal(link(scratch_path(file), scratch_path("early")), 0);
	for (int i = 0; i < 1000; i++)
		fake_event(id, NULL, 0, "/x");
	run_until(&events, 1000);
	close_sessions();
	assert_int_equal(rename(scratch_path("early"), scratch_path(file)), 0);
	/* A draft that it was killed over. */
	scratch_write("run/sessions/1.json.new", "{");
	open_sessions();
	assert_int_equal(rf_sessions_take_over(sessions), 0);
	assert_int_equal(files_in(scratch_path("run/sessions")), 1);
	fake_event(id, NULL, 0, "/x");
	run_until(&events, 1001);
	assert_int_equal(json_integer_value(json_object_get(last_event, "seq")), 1001);
	kill(pid, SIGKILL);
	expect_killed(pid);
	run_until(&ends, 1);
	nothing_left();
}

static void cgroup_gone(void **state)
{
	struct rf_live_session *session;
	char cgroup[256];

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	snprintf(cgroup, sizeof(cgroup), "%s", rf_session_state(session)->cgroup);
	close_sessions();
	assert_int_equal(rmdir(cgroup), 0);
	assert_int_equal(mkdir(cgroup, 0700), 0); /* of the same name, but another */
	open_sessions();
	assert_int_equal(rf_sessions_take_over(sessions), 0);
	nothing_left();
}

static void corrupt_state(void **state)
{
	struct rf_live_session *session;
	_cleanup_json_ json_t *list = NULL;
	char file[64];
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	pid = put_sleeper(session);
	snprintf(file, sizeof(file), "run/sessions/%d.json",
		 (int)rf_session_state(session)->kernel.id);
	close_sessions();
	scratch_write(file, "{\"id\": 1}");
	open_sessions();
	assert_int_equal(rf_sessions_take_over(sessions), 0);
	assert_non_null(strstr(complaints, "cannot be read"));
	/* It counts, is shown, and its wall stands. */
	assert_int_equal(rf_sessions_count(sessions), 1);
	list = rf_sessions_list(sessions);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "id")), 1);
	assert_int_equal(fake_sessions(), 1);
	assert_int_equal(kill(pid, 0), 0);
	kill(pid, SIGKILL);
	expect_killed(pid);
}

/* Somebody unloaded the kernel side: what runs in the sessions must not go on. */
static void wall_gone(void **state)
{
	struct rf_live_session *session;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	pid = put_sleeper(session);
	close_sessions();
	fake_reset();
	open_sessions();
	assert_false(rf_kernel_adopted(kernel));
	assert_int_equal(rf_sessions_take_over(sessions), 0);
	expect_killed(pid);
	assert_non_null(strstr(complaints, "unloaded under it"));
	assert_int_equal(rf_sessions_count(sessions), 0);
	assert_int_equal(files_in(scratch_path("run/sessions")), 0);
}

/* ---- reload ---------------------------------------------------------- */

/* Another policy: its only rule stands in another line. */
static void *other_image(size_t *ret_size)
{
	struct rf_image *other = fake_image(ret_size);
	struct rf_rule *rule = (struct rf_rule *)((__u64 *)other + other->rules);

	rule->line = 9;
	other->checksum = 0;
	other->checksum = (uint32_t)crc32(0, (const Bytef *)other, (uInt)*ret_size);
	return other;
}

static int reload(struct rf_live_session *session, bool audit, struct rf_diags *diags,
		  int *ret_exit)
{
	struct rf_session_name names[] = {
		{.path = "/", .identity = identity_of("/")},
		{.path = "/tmp", .identity = identity_of("/tmp")},
		{.path = "/etc", .identity = identity_of("/etc")},
	};
	struct rf_session_request request = {
		.policy = "other",
		.policy_file = "/o.yaml",
		.pid = getpid(),
		.audit = audit,
		.names = names,
		.n_names = 3,
	};
	_cleanup_free_ void *other = other_image(&request.image_size);

	request.image = other;
	return rf_session_reload(session, &request, diags, ret_exit);
}

static uint64_t rule_line(const json_t *event)
{
	return (uint64_t)json_integer_value(
		json_object_get(json_object_get(event, "rule"), "line"));
}

static size_t policy_anchors(uint64_t policy)
{
	size_t n = 0;

	for (size_t i = 0; i < fake.n_anchors; i++)
		n += fake.anchors[i].key.policy == policy;
	return n;
}

static void reloaded(void **state)
{
	const struct rf_session_state *s;
	struct rf_live_session *session;
	struct rf_diags diags = {0};
	struct rf_anchor_key key;
	char name[64];
	uint64_t policy;
	void *images;
	size_t size;
	int code = 0;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	s = rf_session_state(session);
	policy = RF_WORD_POLICY(s->kernel.word);
	key = fake.anchors[1].key;
	pid = put_sleeper(session);
	/* In the ring when the policy is switched: told by the one that judged it. */
	fake_event(s->kernel.id, &key, 0, "/x")->policy = policy;
	assert_int_equal(reload(session, true, &diags, &code), 0);
	assert_int_equal(diags.n, 0);
	assert_true(RF_WORD_POLICY(s->kernel.word) > policy);
	assert_true(s->kernel.word & RF_WORD_AUDIT);
	assert_true(fake.sessions[s->kernel.slot].word == s->kernel.word);
	assert_string_equal(s->policy, "other");
	assert_string_equal(s->policy_file, "/o.yaml");
	assert_string_equal(s->user, "root");
	assert_int_equal(anchors_of(s), 3);
	assert_int_equal(policy_anchors(RF_WORD_POLICY(s->kernel.word)), 3);
	assert_int_equal(policy_anchors(policy), 0);
	assert_int_equal(fake_images(), 1);
	assert_int_equal(fake.synchronized, 1);
	/* What the first policy gave is not forgotten. */
	assert_int_equal(files_in(scratch_path("run/sessions")), 2);
	assert_int_equal(rf_session_images(session, &images, &size), 0);
	assert_int_equal(size, 2 * image_size);
	assert_memory_equal((char *)images + image_size, image, image_size);
	assert_memory_not_equal(images, image, image_size);
	free(images);
	fake_event(s->kernel.id, &key, 0, "/y")->policy = policy;
	run_until(&events, 2);
	assert_int_equal(rule_line(last_event), 7);
	assert_string_equal(json_string_value(json_object_get(last_event, "path")), "/tmp/y");
	assert_string_equal(json_string_value(json_object_get(last_event, "mode")), "enforce");
	assert_string_equal(json_string_value(json_object_get(last_event, "policy")), "unit test");
	fake_event(s->kernel.id, &fake.anchors[2].key, 0, "/z")->policy =
		RF_WORD_POLICY(s->kernel.word);
	run_until(&events, 3);
	assert_int_equal(rule_line(last_event), 9);
	assert_string_equal(json_string_value(json_object_get(last_event, "path")), "/etc/z");
	assert_string_equal(json_string_value(json_object_get(last_event, "mode")), "audit");
	assert_string_equal(json_string_value(json_object_get(last_event, "policy")), "other");
	/* The tick waits once more, and then forgets the names of the first. */
	run_for(1500000);
	assert_int_equal(fake.synchronized, 2);
	run_for(1500000);
	assert_int_equal(fake.synchronized, 2);
	/* A restarted daemon knows the new one. */
	snprintf(name, sizeof(name), "%s", s->name);
	restart();
	s = rf_session_state(rf_sessions_find(sessions, name));
	assert_string_equal(s->policy, "other");
	assert_null(strstr(complaints, "swap"));
	kill(pid, SIGKILL);
	expect_killed(pid);
	ends = 0;
	run_until(&ends, 1);
	nothing_left();
}

/* Whatever fails, the old policy is as it was. */
static void reload_failures(void **state)
{
	static const struct {
		const char *function;
		int error, after, code;
	} rows[] = {
		{"put_image", -ENOSPC, 0, 1},	  {"put_image", -EINVAL, 0, 3},
		{"add_anchor", -ENOMEM, 0, 1},	  {"add_anchor", -ENOSPC, 2, 1},
		{"switch_session", -ESRCH, 0, 1},
	};
	const struct rf_session_state *s;
	struct rf_session_totals totals;
	struct rf_live_session *session;
	struct rf_diags diags = {0};
	uint64_t word;
	char file[64];
	int code;

	(void)state;
	if (!scratch_root)
		skip();
	session = start();
	s = rf_session_state(session);
	word = s->kernel.word;
	for (size_t i = 0; i <= RF_COUNT(rows); i++) {
		if (i < RF_COUNT(rows)) {
			fake_fail(rows[i].function, rows[i].error, rows[i].after);
			assert_int_equal(reload(session, false, &diags, &code), rows[i].error);
			assert_int_equal(code, rows[i].code);
		} else {
			/* The next state cannot be written. */
			snprintf(file, sizeof(file), "run/sessions/%d.next.new", (int)s->kernel.id);
			assert_int_equal(mkdir(scratch_path(file), 0700), 0);
			assert_int_equal(reload(session, false, &diags, &code), -EISDIR);
			assert_non_null(strstr(diags.items[0].message, " keeps its policy: "));
			assert_int_equal(rmdir(scratch_path(file)), 0);
		}
		fake.fail = NULL;
		assert_true(diags.errors > 0);
		rf_diags_done(&diags);
		diags = (struct rf_diags){0};
		assert_true(s->kernel.word == word);
		assert_true(fake.sessions[s->kernel.slot].word == word);
		assert_string_equal(s->policy, "unit test");
		assert_int_equal(anchors_of(s), 2);
		assert_int_equal(fake.n_anchors, 2);
		assert_int_equal(fake_images(), 1);
		/* The image of the policy that was to be replaced may be kept already. */
		snprintf(file, sizeof(file), "run/sessions/%d.images", (int)s->kernel.id);
		assert_int_equal(files_in(scratch_path("run/sessions")),
				 access(scratch_path(file), F_OK) ? 1 : 2);
	}
	/* The wait fails: what may be in use stays until it succeeds. */
	fake_fail("synchronize", -ENOMEM, 0);
	assert_int_equal(reload(session, false, &diags, &code), 0);
	assert_non_null(strstr(complaints, "out of use"));
	assert_int_equal(fake.n_anchors, 5);
	assert_int_equal(fake_images(), 2);
	fake.fail = NULL;
	run_for(1500000);
	assert_int_equal(fake.n_anchors, 3);
	assert_int_equal(fake_images(), 1);
	rf_session_end(session, false, &totals);
	run_until(&ends, 1);
	nothing_left();
}

/* The daemon was killed on one side of the switch or on the other. */
static void killed_within_reload(void **state)
{
	(void)state;
	if (!scratch_root)
		skip();
	for (int switched = 0; switched < 2; switched++) {
		struct rf_live_session *session = start();
		const struct rf_session_state *s = rf_session_state(session);
		uint64_t old = s->kernel.word, id = s->kernel.id;
		struct rf_anchor_key key = fake.anchors[1].key;
		pid_t pid = put_sleeper(session);
		char file[64], next[64], name[64];
		struct rf_diags diags = {0};
		int code;

		snprintf(name, sizeof(name), "%s", s->name);
		snprintf(file, sizeof(file), "run/sessions/%d.json", (int)id);
		snprintf(next, sizeof(next), "run/sessions/%d.next", (int)id);
		assert_int_equal(link(scratch_path(file), scratch_path("early")), 0);
		/* So that nothing is removed. */
		fake_fail("synchronize", -ENOMEM, 0);
		assert_int_equal(reload(session, true, &diags, &code), 0);
		close_sessions();
		fake.fail = NULL;
		assert_int_equal(rename(scratch_path(file), scratch_path(next)), 0);
		assert_int_equal(rename(scratch_path("early"), scratch_path(file)), 0);
		if (!switched)
			fake.sessions[0].word = old;
		fake_event(id, &key, 0, "/x")->policy = RF_WORD_POLICY(old);

		events = 0;
		open_sessions();
		assert_int_equal(rf_sessions_take_over(sessions), 0);
		assert_non_null(strstr(complaints, "swap was under way"));
		s = rf_session_state(rf_sessions_find(sessions, name));
		assert_true((s->kernel.word == old) == !switched);
		assert_true(fake.sessions[0].word == s->kernel.word);
		assert_string_equal(s->policy, switched ? "other" : "unit test");
		assert_int_equal(anchors_of(s), switched ? 3 : 2);
		run_until(&events, 1);
		assert_int_equal(rule_line(last_event), 7);
		run_for(1500000);
		assert_int_equal(fake_images(), 1);
		assert_int_equal(fake.n_anchors, anchors_of(s));
		assert_int_equal(files_in(scratch_path("run/sessions")), 2);
		ends = 0;
		kill(pid, SIGKILL);
		expect_killed(pid);
		run_until(&ends, 1);
		nothing_left();
	}
}

/* An image that a session shares with one that ended while no daemon ran. */
static void shared_image(void **state)
{
	struct rf_live_session *first, *second;
	char gone[256];
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	first = start();
	second = start();
	assert_int_equal(fake_images(), 2);
	pid = put_sleeper(second);
	snprintf(gone, sizeof(gone), "%s", rf_session_state(first)->cgroup);
	close_sessions();
	assert_int_equal(rmdir(gone), 0);
	open_sessions();
	assert_int_equal(rf_sessions_take_over(sessions), 0);
	assert_int_equal(rf_sessions_count(sessions), 1);
	assert_int_equal(fake_images(), 1);
	assert_non_null(fake.image[0]);
	kill(pid, SIGKILL);
	expect_killed(pid);
	run_until(&ends, 1);
	nothing_left();
}

static void names(void **state)
{
	static const char *const bad[] = {"", ".", "..", ".x", "a/b", "a b", "a\n", "\xc3\xbc"};
	char longest[82];

	(void)state;
	assert_true(rf_session_name_valid("workspace-write-01abef"));
	assert_true(rf_session_name_valid("a.b_c-000000"));
	for (size_t i = 0; i < RF_COUNT(bad); i++)
		assert_false(rf_session_name_valid(bad[i]));
	memset(longest, 'a', sizeof(longest));
	longest[81] = 0;
	assert_false(rf_session_name_valid(longest));
	longest[80] = 0;
	assert_true(rf_session_name_valid(longest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(life, setup, teardown),
		cmocka_unit_test_setup_teardown(kept, setup, teardown),
		cmocka_unit_test_setup_teardown(lost, setup, teardown),
		cmocka_unit_test_setup_teardown(repeats, setup, teardown),
		cmocka_unit_test_setup_teardown(repeats_left, setup, teardown),
		cmocka_unit_test_setup_teardown(full_log, setup, teardown),
		cmocka_unit_test_setup_teardown(failures, setup, teardown),
		cmocka_unit_test_setup_teardown(no_cgroup, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_names, setup, teardown),
		cmocka_unit_test_setup_teardown(no_identity, setup, teardown),
		cmocka_unit_test_setup_teardown(taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(taken_over_after_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(cgroup_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(corrupt_state, setup, teardown),
		cmocka_unit_test_setup_teardown(wall_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(reloaded, setup, teardown),
		cmocka_unit_test_setup_teardown(reload_failures, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_within_reload, setup, teardown),
		cmocka_unit_test_setup_teardown(shared_image, setup, teardown),
		cmocka_unit_test(names),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
