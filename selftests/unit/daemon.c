/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The daemon and its clients: requests that are served, requests that are refused,
 * starting and leaving. The daemon runs in a thread of the test, on the kernel side
 * of memory (fake_kernel.h) and real cgroups.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/client.h"
#include "user/control.h"
#include "user/daemon.h"
#include "user/peer.h"

#include "selftests/unit/fake_image.h"
#include "selftests/unit/fake_kernel.h"
#include "selftests/unit/scratch.h"

static const char *program; /* this test, which is also the daemon that is started on demand */
static char run_dir[80], log_dir[128], mountinfo[128], complaints[8192];
static struct rf_daemon_config config;
static pthread_t thread;
static bool running;
static int exit_code;
static unsigned int ready;
static struct rf_diags diags;

static void on_log(void *userdata, int priority, const char *text)
{
	size_t n = strlen(complaints);

	(void)userdata;
	(void)priority;
	snprintf(complaints + n, sizeof(complaints) - n, "%s\n", text);
}

static void on_notify(void *userdata, const char *state)
{
	(void)userdata;
	ready += !strcmp(state, "READY=1");
}

static void places(const char *dir)
{
	snprintf(run_dir, sizeof(run_dir), "%s/run", dir);
	snprintf(log_dir, sizeof(log_dir), "%s/log", dir);
	snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", dir);
	config = (struct rf_daemon_config){
		.run_dir = run_dir,
		.log_dir = log_dir,
		.pin_dir = "/nowhere",
		.mountinfo = mountinfo,
		.listen_fd = -1,
		.end_usec = 3000000,
		.idle_usec = 100000,
		.log = on_log,
		.notify = on_notify,
	};
}

static int setup(void **state)
{
	if (scratch_setup(state))
		return -1;
	places(scratch);
	*complaints = 0;
	/* The daemon makes its folder below this one, as if it were a mountpoint. */
	if (scratch_cgroup_root())
		scratch_write("mountinfo", "1 2 0:6 / %s rw - cgroup2 cgroup2 rw\n", scratch_root);
	return 0;
}

static void *thread_main(void *argument)
{
	(void)argument;
	exit_code = rf_daemon_run(&config);
	return NULL;
}

static void begin(void)
{
	assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
	running = true;
}

/* Its exit code once it has left. */
static int wait_for_daemon(void)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 10;
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &limit), 0);
	running = false;
	return exit_code;
}

static int stop(void)
{
	kill(getpid(), SIGTERM);
	return wait_for_daemon();
}

static int teardown(void **state)
{
	if (running)
		stop();
	rf_diags_done(&diags);
	diags = (struct rf_diags){0};
	fake_reset();
	return scratch_teardown(state);
}

static struct rf_client *connect_to(void)
{
	struct rf_client *client = NULL;
	int err = -ENOENT;

	for (int i = 0; i < 200 && err; i++) {
		err = rf_client_connect_at(run_dir, log_dir, false, &diags, &client);
		if (err)
			usleep(10000);
	}
	assert_int_equal(err, 0);
	rf_diags_done(&diags);
	diags = (struct rf_diags){0};
	return client;
}

static json_t *ask_with(struct rf_client *client, json_t *request, const int *fds, size_t n,
			int *ret_fd)
{
	json_t *reply = NULL;

	assert_int_equal(rf_client_call(client, request, fds, n, &diags, &reply, ret_fd, NULL), 0);
	return reply;
}

static json_t *ask(struct rf_client *client, json_t *request)
{
	return ask_with(client, request, NULL, 0, NULL);
}

static void refused_with(struct rf_client *client, json_t *request, const int *fds, size_t n,
			 int error)
{
	size_t errors = diags.errors;
	int code = 0;

	assert_non_null(request);
	assert_int_equal(rf_client_call(client, request, fds, n, &diags, NULL, NULL, &code), error);
	assert_int_equal(diags.errors, errors + 1);
	assert_int_equal(code, 1);
}

static void refused(struct rf_client *client, json_t *request, int error)
{
	refused_with(client, request, NULL, 0, error);
}

/* The last refusal's message has these words. */
static void said(const char *words)
{
	assert_true(diags.n > 0);
	assert_non_null(strstr(diags.items[diags.n - 1].message, words));
}

static json_int_t number(const json_t *json, const char *key)
{
	assert_true(json_is_integer(json_object_get(json, key)));
	return json_integer_value(json_object_get(json, key));
}

static int image_fd(void)
{
	size_t size;
	_cleanup_free_ void *image = fake_image(&size);
	int fd = memfd_create("image", MFD_CLOEXEC);

	assert_int_equal(write(fd, image, size), size);
	return fd;
}

static json_t *start_request(void)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:b, s:[s], s:s, s:i, s:s, s:b}", "op", "start",
			 "policy", "unit", "policy_file", "/p.yaml", "audit", 0, "log_all", 0,
			 "command", "make", "user", "root", "uid", 0, "cwd", "/", "events", 1);
}

/* Start a session; its name is malloc'ed. */
static char *start(struct rf_client *client, int *ret_procs)
{
	struct rf_name items[] = {{.path = (char *)"/", .fd = open("/", O_PATH | O_CLOEXEC)},
				  {.path = (char *)"/tmp", .fd = open("/tmp", O_PATH | O_CLOEXEC)}};
	struct rf_names names = {.items = items, .n = 2};
	_cleanup_fd_ int image = image_fd();
	_cleanup_json_ json_t *reply = NULL;
	int procs = -1;

	assert_int_equal(rf_client_anchor(client, &names, &diags), 0);
	close(items[0].fd);
	close(items[1].fd);
	reply = ask_with(client, start_request(), &image, 1, &procs);
	assert_true(procs >= 0);
	if (ret_procs)
		*ret_procs = procs;
	else
		close(procs);
	return strdup(json_string_value(json_object_get(reply, "session")));
}

static json_int_t sessions(struct rf_client *client)
{
	_cleanup_json_ json_t *reply = ask(client, json_pack("{s:s}", "op", "status"));

	return number(reply, "sessions");
}

struct seen {
	unsigned int n;
	json_int_t lost, last_seq;
	const char *session; /* that losses are expected of */
	unsigned int strange; /* losses of another one */
};

static void on_event(void *userdata, json_t *event)
{
	struct seen *seen = userdata;
	const char *op = json_string_value(json_object_get(event, "op"));

	if (!strcmp(op, "lost")) {
		assert_string_equal(json_string_value(json_object_get(event, "reason")),
				    "slow-reader");
		if (!seen->session || strcmp(json_string_value(json_object_get(event, "session")),
					     seen->session) != 0)
			seen->strange++;
		seen->lost += number(event, "count");
		return;
	}
	seen->n++;
	seen->last_seq = number(event, "seq");
}

static void expect_killed(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- tests ----------------------------------------------------------- */

static void life(void **state)
{
	_cleanup_json_ json_t *status = NULL, *list = NULL, *end = NULL;
	_cleanup_free_ char *name = NULL;
	struct rf_client *client, *other;
	struct seen seen = {0};
	int procs;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	assert_int_equal(ready, 1);
	name = start(client, &procs);
	pid = scratch_sleeper(procs);
	close(procs);
	status = ask(client, json_pack("{s:s}", "op", "status"));
	assert_int_equal(number(status, "sessions"), 1);
	assert_int_equal(number(status, "pid"), getpid());
	assert_true(json_is_false(json_object_get(status, "adopted")));
	other = connect_to();
	list = ask(other, json_pack("{s:s}", "op", "list"));
	list = json_array_get(json_object_get(list, "sessions"), 0) ? list : NULL;
	assert_string_equal(
		json_string_value(json_object_get(
			json_array_get(json_object_get(list, "sessions"), 0), "session")),
		name);
	/* Its owner gets its events, before the reply to `end`. */
	rf_client_on_event(client, on_event, &seen);
	fake_event(1, &fake.anchors[1].key, 0, "/a");
	assert_int_equal(rf_client_dispatch(client), 1);
	assert_int_equal(seen.n, 1);
	fake_event(1, &fake.anchors[1].key, 0, "/b");
	end = ask(client, json_pack("{s:s, s:b}", "op", "end", "keep", 0));
	assert_int_equal(seen.n, 2);
	assert_int_equal(number(end, "killed"), 1);
	expect_killed(pid);
	assert_int_equal(sessions(other), 0);
	/* A second session on the same connection. */
	free(name);
	name = start(client, NULL);
	rf_client_close(client);
	rf_client_close(other);
	assert_int_equal(fake.unloads, 0);
}

/* The image in force is handed out, and nobody can change what was handed out. */
static void policy(void **state)
{
	_cleanup_free_ char *name = NULL, *copy = NULL;
	_cleanup_free_ void *image = NULL;
	_cleanup_json_ json_t *reply = NULL;
	struct rf_client *client, *other;
	size_t size;
	int fd = -1;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	name = start(client, NULL);
	other = connect_to();
	reply = ask_with(other, json_pack("{s:s, s:s}", "op", "policy", "session", name), NULL, 0,
			 &fd);
	assert_string_equal(json_string_value(json_object_get(reply, "session")), name);
	assert_string_equal(json_string_value(json_object_get(reply, "policy")), "unit");
	assert_string_equal(json_string_value(json_object_get(reply, "policy_file")), "/p.yaml");
	assert_string_equal(json_string_value(json_object_get(reply, "mode")), "enforce");
	image = fake_image(&size);
	copy = malloc(size + 1);
	assert_int_equal(pread(fd, copy, size + 1, 0), size);
	assert_memory_equal(copy, image, size);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	close(fd);
	refused(other, json_pack("{s:s, s:s}", "op", "policy", "session", "other"), -ENOENT);
	said("there is no session ");
	refused(other, json_pack("{s:s}", "op", "policy"), -EPROTO);
	said("policy: of which session?");
	refused(other, json_pack("{s:s, s:i}", "op", "policy", "session", 1), -EPROTO);
	fake_fail("get_image", -EIO, 0);
	refused(other, json_pack("{s:s, s:s}", "op", "policy", "session", name), -EIO);
	said("cannot read the image of the session's policy: ");
	fake.fail = NULL;
	/* There has been no other policy. */
	json_decref(ask_with(other, json_pack("{s:s, s:s}", "op", "images", "session", name), NULL,
			     0, &fd));
	assert_int_equal(pread(fd, copy, size + 1, 0), size);
	assert_memory_equal(copy, image, size);
	close(fd);
	refused(other, json_pack("{s:s, s:s}", "op", "images", "session", "other"), -ENOENT);
	refused(other, json_pack("{s:s}", "op", "images"), -EPROTO);
	said("images: of which session?");
	rf_client_close(other);
	rf_client_close(client);
}

static void client_dies(void **state)
{
	_cleanup_free_ char *name = NULL;
	struct rf_client *client, *other;
	int procs;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	name = start(client, &procs);
	pid = scratch_sleeper(procs);
	close(procs);
	rf_client_close(client);
	expect_killed(pid);
	other = connect_to();
	for (int i = 0; i < 100 && sessions(other); i++)
		usleep(20000);
	assert_int_equal(sessions(other), 0);
	/* Without sessions it unloads. */
	rf_client_close(other);
	assert_int_equal(stop(), 0);
	assert_int_equal(fake.unloads, 1);
}

static void leaves_sessions(void **state)
{
	_cleanup_free_ char *name = NULL;
	struct rf_client *client, *other;
	int procs;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	name = start(client, &procs);
	pid = scratch_sleeper(procs);
	close(procs);
	assert_int_equal(stop(), 0);
	assert_int_equal(fake.unloads, 0);
	assert_int_equal(fake_sessions(), 1);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(rf_client_dispatch(client), -ECONNRESET);
	assert_int_equal(rf_client_connect_at(run_dir, log_dir, false, &diags, &other), -ENOENT);
	rf_client_close(client);

	begin();
	other = connect_to();
	assert_int_equal(sessions(other), 1);
	kill(pid, SIGKILL);
	expect_killed(pid);
	for (int i = 0; i < 100 && sessions(other); i++)
		usleep(20000);
	assert_int_equal(sessions(other), 0);
	rf_client_close(other);
}

static void kept(void **state)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_json_ json_t *end = NULL;
	struct rf_client *client;
	int procs;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	name = start(client, &procs);
	pid = scratch_sleeper(procs);
	close(procs);
	end = ask(client, json_pack("{s:s, s:b}", "op", "end", "keep", 1));
	assert_int_equal(number(end, "killed"), 0);
	refused(client, json_pack("{s:s}", "op", "end"), -ENOENT);
	rf_client_close(client);
	client = connect_to();
	assert_int_equal(sessions(client), 1);
	assert_int_equal(kill(pid, 0), 0);
	kill(pid, SIGKILL);
	expect_killed(pid);
	rf_client_close(client);
}

static json_t *anchor_of(json_t *name)
{
	return json_pack("{s:s, s:[o]}", "op", "anchor", "names", name);
}

static void refusals(void **state)
{
	static const char *const paths[] = {"",	  "a",	   "//",  "/a/",  "/a//b",
					    "/.", "/a/..", "/..", "/\\x", "/a\\x00/../b"};
	_cleanup_fd_ int slash = open("/", O_PATH | O_CLOEXEC);
	_cleanup_fd_ int image = image_fd();
	_cleanup_fd_ int empty = memfd_create("x", MFD_CLOEXEC);
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *big = calloc(1, 5000);
	struct rf_client *client;
	json_t *request;
	int pipes[2], both[2] = {image, slash};
	static const char *const fields[] = {"policy",	"policy_file", "audit", "log_all",
					     "command", "user",	       "uid",	"cwd",
					     "events",	"workspace",   "home",	"limits"};

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	memset(big, 'a', 4999);

	refused(client, json_object(), -EPROTO);
	said("a request needs an ");
	refused(client, json_pack("{s:i}", "op", 3), -EPROTO);
	refused(client, json_pack("{s:s}", "op", "dance"), -EOPNOTSUPP);
	said("ringfenced does not know the request ");
	refused(client, json_pack("{s:s}", "op", "hello"), -EPROTO);
	refused(client, json_pack("{s:s, s:i}", "op", "hello", "version", 99), -EPROTO);
	said(" of the control protocol");
	refused_with(client, json_pack("{s:s}", "op", "list"), &slash, 1, -EPROTO);
	said(" takes no descriptors");
	refused(client, json_pack("{s:s}", "op", "end"), -ENOENT);
	said("this connection has no session");

	refused(client, json_pack("{s:s}", "op", "anchor"), -EPROTO);
	said("anchor: each name needs one descriptor");
	refused(client, json_pack("{s:s, s:[]}", "op", "anchor", "names"), -EPROTO);
	refused(client, anchor_of(json_pack("{s:s}", "path", "/")), -EPROTO);
	refused_with(client, anchor_of(json_integer(3)), &slash, 1, -EPROTO);
	said(" is not a normalised path");
	refused_with(client, anchor_of(json_pack("{s:s, s:i}", "path", "/", "deny_only", 1)),
		     &slash, 1, -EPROTO);
	refused_with(client, anchor_of(json_pack("{s:s}", "path", big)), &slash, 1, -EPROTO);
	for (size_t i = 0; i < RF_COUNT(paths); i++)
		refused_with(client, anchor_of(json_pack("{s:s}", "path", paths[i])), &slash, 1,
			     -EPROTO);
	fake_fail("identify", -EBADF, 0);
	refused_with(client, anchor_of(json_pack("{s:s}", "path", "/")), &slash, 1, -EBADF);
	said("cannot tell the objects' identities: ");
	fake.fail = NULL;

	for (size_t i = 0; i < RF_COUNT(fields); i++) {
		request = start_request();
		json_object_set_new(request, fields[i], json_pack("[i]", 1));
		refused_with(client, request, &image, 1, -EPROTO);
	}
	request = start_request();
	json_object_set_new(request, "user", json_string("\x1b[31m")); /* not escaped */
	refused_with(client, request, &image, 1, -EPROTO);
	request = start_request();
	json_object_set_new(request, "cwd", json_string(big));
	refused_with(client, request, &image, 1, -EPROTO);
	said("start: a field is missing or is not what it should be");
	refused(client, start_request(), -EPROTO);
	said("start: one descriptor is needed, the image's");
	refused_with(client, start_request(), both, 2, -EPROTO);
	refused_with(client, start_request(), &empty, 1, -EFBIG);
	refused_with(client, start_request(), &slash, 1, -EBADF);
	said("start: cannot read the image: ");
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	refused_with(client, start_request(), pipes, 1, -EBADF);
	close(pipes[0]);
	close(pipes[1]);

	refused(client, json_pack("{s:s, s:s}", "op", "events", "session", "../x"), -ENOENT);
	refused(client, json_pack("{s:s, s:s}", "op", "events", "session", "none-00"), -ENOENT);
	refused(client, json_pack("{s:s, s:i}", "op", "events", "follow", 1), -EPROTO);
	said("events: a field is not what it should be");

	/* After all this it serves as before. */
	assert_int_equal(sessions(client), 0);
	name = start(client, NULL);
	refused_with(client, anchor_of(json_pack("{s:s}", "path", "/")), &slash, 1, -EBUSY);
	said("the session of this connection has been started");
	refused_with(client, start_request(), &image, 1, -EBUSY);
	said("this connection has a session already");
	refused(client, json_pack("{s:s, s:i}", "op", "end", "keep", 3), -EPROTO);
	said("end: keep is true or false");
	rf_client_close(client);
}

static json_t *reload_request(const char *name)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "op", "reload", "session", name,
			 "policy", "second", "policy_file", "/q.yaml", "audit", 1, "log_all", 0);
}

/* Another connection than the owner's switches the policy. */
static void reload(void **state)
{
	static const char *const fields[] = {"session", "policy",  "policy_file",
					     "audit",	"log_all", "limits"};
	struct rf_name item = {.path = (char *)"/", .fd = open("/", O_PATH | O_CLOEXEC)};
	struct rf_names names = {.items = &item, .n = 1};
	_cleanup_fd_ int image = image_fd();
	_cleanup_fd_ int slash = open("/", O_PATH | O_CLOEXEC);
	_cleanup_json_ json_t *reply = NULL, *list = NULL;
	_cleanup_free_ char *name = NULL;
	struct rf_client *client, *other;
	json_t *request;
	int code;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	other = connect_to();
	name = start(client, NULL);
	refused_with(other, reload_request("none-000000"), &image, 1, -ENOENT);
	refused(other, reload_request(name), -EPROTO);
	said("reload: a field is missing or is not what it should be, or the image is");
	refused_with(other, reload_request(name), &slash, 1, -EBADF);
	said("reload: cannot read the image: ");
	for (size_t i = 0; i < RF_COUNT(fields); i++) {
		request = reload_request(name);
		json_object_set_new(request, fields[i], json_pack("[i]", 1));
		refused_with(other, request, &image, 1, -EPROTO);
	}
	assert_int_equal(fake.n_anchors, 2);
	assert_int_equal(rf_client_anchor(other, &names, &diags), 0);
	close(item.fd);
	reply = ask_with(other, reload_request(name), &image, 1, NULL);
	assert_string_equal(json_string_value(json_object_get(reply, "policy")), "second");
	assert_string_equal(json_string_value(json_object_get(reply, "mode")), "audit");
	assert_int_equal(fake.n_anchors, 1);
	list = ask(other, json_pack("{s:s}", "op", "list"));
	assert_string_equal(
		json_string_value(json_object_get(
			json_array_get(json_object_get(list, "sessions"), 0), "policy")),
		"second");
	/* An invalid image: the policy's fault, and nothing changes. */
	assert_int_equal(pwrite(image, "x", 1, 20), 1);
	assert_int_equal(
		rf_client_call(other, reload_request(name), &image, 1, &diags, NULL, NULL, &code),
		-EINVAL);
	assert_int_equal(code, 3);
	assert_int_equal(fake.n_anchors, 1);
	assert_int_equal(sessions(client), 1);
	rf_client_close(other);
	rf_client_close(client);
}

/* An invalid image is the policy's fault: exit code 3. */
static void invalid_image(void **state)
{
	_cleanup_fd_ int image = image_fd();
	struct rf_client *client;
	int code = 0;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	assert_int_equal(pwrite(image, "x", 1, 20), 1);
	assert_int_equal(
		rf_client_call(client, start_request(), &image, 1, &diags, NULL, NULL, &code),
		-EINVAL);
	assert_int_equal(code, 3);
	rf_client_close(client);
}

static void garbage(void **state)
{
	static const char *const bad[] = {"", "x", "[]", "{\"op\":", "{\"memfd\":true}"};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct rf_client *client;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.sock", run_dir);
	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		char byte;

		assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(send(fd, bad[i], strlen(bad[i]), 0), strlen(bad[i]));
		assert_true(recv(fd, &byte, 1, 0) <= 0); /* hung up on */
	}
	assert_int_equal(sessions(client), 0);
	rf_client_close(client);
}

static void events_of_others(void **state)
{
	_cleanup_free_ char *name = NULL;
	struct rf_client *client, *follower, *reader, *one;
	struct seen followed = {0}, read_ = {0}, one_seen = {0};
	json_t *end;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	name = start(client, NULL);
	for (int i = 0; i < 500; i++)
		fake_event(1, NULL, 0, "/x");
	/* What has been, then what comes: each once. */
	follower = connect_to();
	rf_client_on_event(follower, on_event, &followed);
	json_decref(ask(follower,
			json_pack("{s:s, s:b, s:b}", "op", "events", "follow", 1, "past", 1)));
	refused(follower, json_pack("{s:s}", "op", "events"), -EALREADY);
	said("this connection follows events already");
	one = connect_to();
	rf_client_on_event(one, on_event, &one_seen);
	json_decref(ask(
		one, json_pack("{s:s, s:b, s:s}", "op", "events", "follow", 1, "session", name)));
	for (int i = 0; i < 3; i++)
		fake_event(1, NULL, 0, "/y");
	while (followed.n < 503)
		assert_int_equal(rf_client_dispatch(follower), 1);
	assert_int_equal(followed.last_seq, 503);
	assert_int_equal(followed.lost, 0);
	end = ask(client, json_pack("{s:s}", "op", "end"));
	json_decref(end);
	/* The end of the session is the end of the stream about it. */
	while (rf_client_dispatch(one) == 1)
		;
	assert_int_equal(one_seen.n, 3);
	/* Of a session that has ended the log is left. */
	reader = connect_to();
	rf_client_on_event(reader, on_event, &read_);
	json_decref(ask(reader,
			json_pack("{s:s, s:b, s:s}", "op", "events", "past", 1, "session", name)));
	while (rf_client_dispatch(reader) == 1)
		;
	assert_int_equal(read_.n, 503);
	/* Without past there is nothing. */
	json_decref(ask(reader, json_pack("{s:s}", "op", "events")));
	assert_int_equal(rf_client_dispatch(reader), 0);
	rf_client_close(client);
	rf_client_close(follower);
	rf_client_close(reader);
	rf_client_close(one);
}

/* A follower that does not read holds up nobody, and learns how much it missed. */
static void slow_reader(void **state)
{
	_cleanup_free_ char *name = NULL;
	struct rf_client *client, *slow;
	struct seen seen = {0};
	const unsigned int all = 8000;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	seen.session = name = start(client, NULL);
	slow = connect_to();
	rf_client_on_event(slow, on_event, &seen);
	json_decref(ask(slow, json_pack("{s:s, s:b}", "op", "events", "follow", 1)));
	for (unsigned int i = 0; i < all; i++)
		fake_event(1, NULL, 0, "/x");
	json_decref(ask(client, json_pack("{s:s}", "op", "list")));
	while (seen.n + seen.lost < all)
		assert_int_equal(rf_client_dispatch(slow), 1);
	assert_true(seen.lost > 0);
	assert_true(seen.n >= RF_PEER_QUEUE);
	assert_int_equal(seen.n + seen.lost, all);
	assert_int_equal(seen.strange, 0);
	rf_client_close(client);
	rf_client_close(slow);
}

/* A reader that is slow to the end is told what it missed before it is told of the end. */
static void slow_to_the_end(void **state)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_json_ json_t *end = NULL;
	struct rf_client *client, *one;
	struct seen own = {0}, followed = {0};
	const unsigned int all = 8000;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	rf_client_on_event(client, on_event, &own);
	own.session = followed.session = name = start(client, NULL);
	one = connect_to();
	rf_client_on_event(one, on_event, &followed);
	json_decref(ask(
		one, json_pack("{s:s, s:b, s:s}", "op", "events", "follow", 1, "session", name)));
	for (unsigned int i = 0; i < all; i++)
		fake_event(1, NULL, 0, "/x");
	end = ask(client, json_pack("{s:s}", "op", "end"));
	assert_true(own.lost > 0);
	assert_int_equal(own.n + own.lost, all);
	while (rf_client_dispatch(one) == 1)
		;
	assert_true(followed.lost > 0);
	assert_int_equal(followed.n + followed.lost, all);
	assert_int_equal(own.strange + followed.strange, 0);
	rf_client_close(client);
	rf_client_close(one);
}

/* Whoever is in a session, or in a cgroup below it, cannot start another one. */
static void nested(void **state)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *below = NULL;
	struct rf_client *client;
	int procs, status;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	client = connect_to();
	name = start(client, &procs);
	assert_true(asprintf(&below, "%s/ringfence/%s/below", scratch_root, name) > 0);
	assert_int_equal(mkdir(below, 0755), 0);
	free(below);
	assert_true(asprintf(&below, "%s/ringfence/%s/below/cgroup.procs", scratch_root, name) > 0);
	for (int deep = 0; deep < 2; deep++) {
		if (deep) {
			close(procs);
			procs = open(below, O_WRONLY | O_CLOEXEC);
		}
		assert_true(procs >= 0);
		pid = fork();
		if (pid == 0) {
			int image = image_fd(), code = 0, err;

			if (write(procs, "0", 1) != 1 ||
			    rf_client_connect_at(run_dir, log_dir, false, &diags, &client))
				_exit(1);
			err = rf_client_call(client, start_request(), &image, 1, &diags, NULL, NULL,
					     &code);
			if (err != -EOPNOTSUPP || code != 4 || diags.errors != 1)
				_exit(2);
			_exit(strcmp(diags.items[0].message,
				     "a session cannot start another one yet") != 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	close(procs);
	assert_int_equal(sessions(client), 1);
	rf_client_close(client);
}

static void one_instance(void **state)
{
	char expected[64];

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	rf_client_close(connect_to());
	assert_int_equal(rf_daemon_run(&config), 1);
	snprintf(expected, sizeof(expected), "running already (pid %d)", (int)getpid());
	assert_non_null(strstr(complaints, expected));
	rf_client_close(connect_to()); /* the first is not disturbed */
}

/* As if systemd or a client had made the socket. */
static void hand_over_socket(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	assert_int_equal(mkdir(run_dir, 0700), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.sock", run_dir);
	config.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(config.listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(config.listen_fd, 8), 0);
}

static void cannot_enforce(void **state)
{
	struct rf_client *client;

	(void)state;
	if (!scratch_root)
		skip();
	fake_fail("open", -EOPNOTSUPP, 0);
	/* Nobody waits: that is all. */
	assert_int_equal(rf_daemon_run(&config), 4);
	assert_non_null(strstr(complaints, "bpf is no LSM here"));
	assert_int_equal(rf_client_connect_at(run_dir, log_dir, false, &diags, &client), -ENOENT);
	assert_int_equal(diags.errors, 1);
	/* A client waits: it is told, then the daemon leaves. */
	assert_int_equal(rmdir(scratch_path("run/sessions")), -1);
	unlink(scratch_path("run/lock"));
	unlink(scratch_path("run/start.lock"));
	assert_int_equal(rmdir(run_dir), 0);
	hand_over_socket();
	begin();
	assert_int_equal(rf_client_connect_at(run_dir, log_dir, false, &diags, &client),
			 -EOPNOTSUPP);
	assert_string_equal(diags.items[1].message, "bpf is no LSM here");
	assert_string_equal(diags.items[1].hint, "boot with lsm=...,bpf");
	assert_int_equal(wait_for_daemon(), 4);
}

static void on_demand(void **state)
{
	struct rf_client *client;

	(void)state;
	if (!scratch_root)
		skip();
	hand_over_socket();
	config.on_demand = true;
	begin();
	client = connect_to();
	free(start(client, NULL));
	usleep(300000); /* it is needed: it stays */
	assert_int_equal(sessions(client), 1);
	rf_client_close(client);
	assert_int_equal(wait_for_daemon(), 0);
	assert_int_equal(fake.unloads, 1);
	assert_int_equal(access(scratch_path("run/control.sock"), F_OK), -1);
}

/* Whoever is about to start a daemon must not meet one that leaves. */
static void on_demand_waits(void **state)
{
	_cleanup_fd_ int lock = -1;
	struct rf_client *client;

	(void)state;
	if (!scratch_root)
		skip();
	hand_over_socket();
	config.on_demand = true;
	lock = open(scratch_path("run/start.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(flock(lock, LOCK_EX), 0);
	begin();
	rf_client_close(connect_to());
	usleep(500000);
	client = connect_to();
	rf_client_close(client);
	flock(lock, LOCK_UN);
	assert_int_equal(wait_for_daemon(), 0);
}

/* The client starts the daemon: this program again, see main(). */
static void started_by_client(void **state)
{
	struct rf_client *client, *second;
	_cleanup_json_ json_t *status = NULL;

	(void)state;
	if (!scratch_root)
		skip();
	scratch_write("daemon", "#!/bin/sh\nexec %s --as-daemon %s \"$@\"\n", program, scratch);
	assert_int_equal(chmod(scratch_path("daemon"), 0700), 0);
	/* A socket that a killed daemon has left is no obstacle. */
	hand_over_socket();
	close(config.listen_fd);
	setenv("RINGFENCED", "/nowhere/ringfenced", 1);
	assert_int_equal(rf_client_connect_at(run_dir, log_dir, true, &diags, &client), -ENOENT);
	assert_non_null(strstr(diags.items[0].message, "/nowhere/ringfenced"));
	setenv("RINGFENCED", scratch_path("daemon"), 1);
	assert_int_equal(rf_client_connect_at(run_dir, log_dir, true, &diags, &client), 0);
	status = ask(client, json_pack("{s:s}", "op", "status"));
	assert_int_not_equal(number(status, "pid"), getpid());
	assert_true(json_is_true(json_object_get(status, "on_demand")));
	assert_int_equal(rf_client_connect_at(run_dir, log_dir, true, &diags, &second), 0);
	rf_client_close(second);
	rf_client_close(client);
	for (int i = 0; i < 500 && !access(scratch_path("run/control.sock"), F_OK); i++)
		usleep(10000);
	assert_int_equal(access(scratch_path("run/control.sock"), F_OK), -1);
	/* One that leaves at once: its last words are shown. */
	scratch_write("daemon", "#!/bin/sh\necho some words >&2\nexit 1\n");
	rf_diags_done(&diags);
	diags = (struct rf_diags){0};
	assert_int_equal(rf_client_connect_at(run_dir, log_dir, true, &diags, &client),
			 -ECONNRESET);
	assert_string_equal(diags.items[0].hint, "some words");
	unsetenv("RINGFENCED");
}

static void not_root(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (!scratch_root)
		skip();
	begin();
	rf_client_close(connect_to());
	/* The folder keeps others out; if it did not, the daemon would. */
	assert_int_equal(chmod(scratch, 0755), 0);
	for (int open_ = 0; open_ < 2; open_++) {
		if (open_) {
			assert_int_equal(chmod(run_dir, 0755), 0);
			assert_int_equal(chmod(scratch_path("run/control.sock"), 0666), 0);
		}
		pid = fork();
		if (pid == 0) {
			struct rf_client *client;
			int err;

			if (setresuid(65534, 65534, 65534))
				_exit(1);
			err = rf_client_connect_at(run_dir, log_dir, true, &diags, &client);
			if (err != (open_ ? -EPERM : -EACCES) || diags.errors != 1 ||
			    !strstr(diags.items[0].message,
				    open_ ? "only root is served in this version"
					  : "only root may use ringfence in this version"))
				_exit(2);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void out_of_log(void *userdata, int priority, const char *text)
{
	(void)userdata;
	fprintf(stderr, "<%d>%s\n", priority, text);
}

/* The daemon that a client starts: the socket is descriptor 3. */
static int as_daemon(const char *dir, const char *option)
{
	const char *pid = getenv("LISTEN_PID");

	places(dir);
	config.log = out_of_log;
	config.on_demand = !strcmp(option, "--on-demand");
	config.listen_fd = pid && atoi(pid) == getpid() ? 3 : -1;
	return rf_daemon_run(&config);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(life, setup, teardown),
		cmocka_unit_test_setup_teardown(policy, setup, teardown),
		cmocka_unit_test_setup_teardown(client_dies, setup, teardown),
		cmocka_unit_test_setup_teardown(leaves_sessions, setup, teardown),
		cmocka_unit_test_setup_teardown(kept, setup, teardown),
		cmocka_unit_test_setup_teardown(refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(reload, setup, teardown),
		cmocka_unit_test_setup_teardown(invalid_image, setup, teardown),
		cmocka_unit_test_setup_teardown(garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(events_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(slow_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(slow_to_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(nested, setup, teardown),
		cmocka_unit_test_setup_teardown(one_instance, setup, teardown),
		cmocka_unit_test_setup_teardown(cannot_enforce, setup, teardown),
		cmocka_unit_test_setup_teardown(on_demand, setup, teardown),
		cmocka_unit_test_setup_teardown(on_demand_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(started_by_client, setup, teardown),
		cmocka_unit_test_setup_teardown(not_root, setup, teardown),
	};
	static char self[4096];
	sigset_t signals;
	ssize_t n;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (argc == 4 && !strcmp(argv[1], "--as-daemon"))
		return as_daemon(argv[2], argv[3]);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = 0;
	program = self;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
