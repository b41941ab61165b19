/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's end of the control protocol, and starting the daemon; see client.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/client.h"
#include "user/control.h"
#include "user/text.h"

#ifndef RF_DAEMON_PATH
#define RF_DAEMON_PATH "/usr/local/sbin/ringfenced"
#endif

#define LISTEN_FD 3 /* where the socket-activation protocol begins */
#define TRIES 50
#define TRY_USEC 100000
#define ANSWER_SECONDS 120 /* loading the kernel side takes long on slow machines */

struct rf_client {
	int fd;
	void (*event)(void *userdata, json_t *event);
	void *userdata;
};

/* ---- one connection ---------------------------------------------------- */

void rf_client_close(struct rf_client *client)
{
	if (!client)
		return;
	close(client->fd);
	free(client);
}

int rf_client_fd(const struct rf_client *client)
{
	return client->fd;
}

void rf_client_on_event(struct rf_client *client, void (*event)(void *userdata, json_t *event),
			void *userdata)
{
	client->event = event;
	client->userdata = userdata;
}

/* Receive a message and the descriptor in it, if any; others are closed. */
static int receive(struct rf_client *client, json_t **ret_message, int *ret_fd)
{
	int fds[RF_CONTROL_FDS];
	size_t n = 0;
	int err = rf_control_receive(client->fd, ret_message, fds, &n);

	if (err)
		return err;
	for (size_t i = 1; i < n; i++)
		close(fds[i]);
	*ret_fd = n ? fds[0] : -1;
	return 0;
}

/* 1 if it was an event. */
static int hand_on(struct rf_client *client, const json_t *message)
{
	json_t *event = json_object_get(message, "event");

	if (!event)
		return 0;
	if (client->event && json_is_object(event))
		client->event(client->userdata, event);
	return 1;
}

int rf_client_dispatch(struct rf_client *client)
{
	_cleanup_json_ json_t *message = NULL;
	_cleanup_fd_ int fd = -1;
	int err = receive(client, &message, &fd);

	if (err)
		return err;
	if (hand_on(client, message))
		return 1;
	return json_is_true(json_object_get(message, "done")) ? 0 : -EPROTO;
}

static int wait_for_reply(struct rf_client *client, json_t **ret_reply, int *ret_fd)
{
	for (bool again = false;;) {
		_cleanup_json_ json_t *message = NULL;
		_cleanup_fd_ int fd = -1;
		int err = receive(client, &message, &fd);

		/* That our request was not read is told before what was sent to us. */
		if (err == -ECONNRESET && !again) {
			again = true;
			continue;
		}
		if (err)
			return err;
		if (hand_on(client, message))
			continue;
		if (!json_object_get(message, "ok"))
			return -EPROTO;
		*ret_reply = rf_steal(&message);
		*ret_fd = rf_steal_fd(&fd);
		return 0;
	}
}

/* A refusal as an error: at least one diagnostic, and -errno. */
static int refused(const json_t *reply, struct rf_diags *diags, int *ret_exit)
{
	json_int_t error = json_integer_value(json_object_get(reply, "errno"));
	json_int_t exit = json_integer_value(json_object_get(reply, "exit"));
	size_t errors = diags->errors;

	rf_control_take_diags(json_object_get(reply, "diags"), diags);
	if (error <= 0 || error > 4095)
		error = EPROTO;
	if (diags->errors == errors)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "ringfenced refuses: %s",
			strerror((int)error));
	if (ret_exit)
		*ret_exit = exit > 0 && exit < 256 ? (int)exit : 1;
	return -(int)error;
}

/* As rf_client_call(), but for lost connections, of which it says nothing. */
static int call(struct rf_client *client, json_t *request, const int *fds, size_t n,
		struct rf_diags *diags, json_t **ret_reply, int *ret_fd, int *ret_exit)
{
	_cleanup_json_ json_t *own = request;
	_cleanup_json_ json_t *reply = NULL;
	_cleanup_fd_ int fd = -1;
	int err = own ? rf_control_send(client->fd, own, fds, n) : -ENOMEM;

	/* EPIPE: perhaps turned away, and the reason waits for us. */
	if (err && err != -EPIPE)
		return err;
	err = wait_for_reply(client, &reply, &fd);
	if (err)
		return err;
	if (!json_is_true(json_object_get(reply, "ok")))
		return refused(reply, diags, ret_exit);
	rf_control_take_diags(json_object_get(reply, "diags"), diags);
	if (ret_reply)
		*ret_reply = rf_steal(&reply);
	if (ret_fd)
		*ret_fd = rf_steal_fd(&fd);
	return 0;
}

int rf_client_call(struct rf_client *client, json_t *request, const int *fds, size_t n,
		   struct rf_diags *diags, json_t **ret_reply, int *ret_fd, int *ret_exit)
{
	size_t errors = diags->errors;
	int err;

	if (ret_exit)
		*ret_exit = 1;
	err = call(client, request, fds, n, diags, ret_reply, ret_fd, ret_exit);
	if (err && diags->errors == errors)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "no answer from ringfenced: %s",
			strerror(-err));
	return err;
}

int rf_client_anchor(struct rf_client *client, const struct rf_names *names, struct rf_diags *diags)
{
	for (size_t at = 0; at < names->n;) {
		int fds[RF_CONTROL_FDS];
		json_t *array = json_array();
		size_t n = 0;
		int err;

		for (; n < RF_CONTROL_FDS && at < names->n; n++, at++) {
			const struct rf_name *name = &names->items[at];
			_cleanup_free_ char *path = rf_escape(name->path, strlen(name->path));

			if (!path ||
			    json_array_append_new(array, json_pack("{s:s, s:b}", "path", path,
								   "deny_only", name->deny_only))) {
				json_decref(array);
				rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "no memory");
				return -ENOMEM;
			}
			fds[n] = name->fd;
		}
		err = rf_client_call(client,
				     json_pack("{s:s, s:o}", "op", "anchor", "names", array), fds,
				     n, diags, NULL, NULL, NULL);
		if (err)
			return err;
	}
	return 0;
}

/* ---- connecting -------------------------------------------------------- */

/* Where the daemon's files are. */
struct places {
	const char *run_dir, *log_dir;
	struct sockaddr_un address;
};

static int try_connect(const struct places *places, struct rf_client **ret_client)
{
	const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct rf_client *client;

	if (fd < 0 ||
	    connect(fd, (const struct sockaddr *)&places->address, sizeof(places->address)))
		return -errno;
	/* Until it has answered hello: a hung daemon is not waited for for ever. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->fd = rf_steal_fd(&fd);
	*ret_client = client;
	return 0;
}

static int greet(struct rf_client *client, struct rf_diags *diags)
{
	const struct timeval none = {0};
	int err =
		call(client, json_pack("{s:s, s:i}", "op", "hello", "version", RF_CONTROL_VERSION),
		     NULL, 0, diags, NULL, NULL, NULL);

	if (!err)
		setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	return err;
}

static int connect_and_greet(const struct places *places, struct rf_diags *diags,
			     struct rf_client **ret_client)
{
	struct rf_client *client = NULL;
	int err = try_connect(places, &client);

	if (!client)
		return err ? err : -EIO;
	err = greet(client, diags);
	if (err) {
		rf_client_close(client);
		return err;
	}
	*ret_client = client;
	return 0;
}

/* ---- starting the daemon ----------------------------------------------- */

/* Beside the running binary, as in the build tree, or in the sbin beside its bin. */
static char *daemon_path(void)
{
	static const char *const places[] = {"ringfenced", "../sbin/ringfenced"};
	const char *given = secure_getenv("RINGFENCED");
	char self[PATH_MAX], *slash;
	ssize_t n;

	if (given && *given)
		return strdup(given);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = 0;
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < RF_COUNT(places); i++) {
		char *path;

		if (asprintf(&path, "%.*s/%s", (int)(slash - self), self, places[i]) < 0)
			return NULL;
		if (!access(path, X_OK))
			return path;
		free(path);
	}
	return strdup(RF_DAEMON_PATH);
}

static int make_dir(const char *path, struct rf_diags *diags)
{
	int err = mkdir(path, 0700) && errno != EEXIST ? -errno : 0;

	if (err)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot make %s: %s", path,
			strerror(-err));
	return err;
}

static int make_listener(const struct places *places, int *ret_fd)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (unlink(places->address.sun_path) && errno != ENOENT)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&places->address, sizeof(places->address)) ||
	    chmod(places->address.sun_path, 0600) || listen(fd, SOMAXCONN))
		return -errno;
	*ret_fd = rf_steal_fd(&fd);
	return 0;
}

static _Noreturn void become_daemon(const char *path, int listener, int log)
{
	char pid[32];
	char *const argv[] = {"ringfenced", "--on-demand", NULL};
	char *const envp[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			      "LISTEN_FDS=1", pid, NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), high;
	sigset_t none;

	/* Out of the way of the numbers that are given now. */
	high = fcntl(listener, F_DUPFD_CLOEXEC, LISTEN_FD + 1);
	if (null < 0 || high < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
	    dup2(log, STDERR_FILENO) < 0 || dup2(high, LISTEN_FD) < 0)
		_exit(127);
	close_range(LISTEN_FD + 1, ~0u, 0);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(0077);
	if (chdir("/"))
		_exit(127);
	snprintf(pid, sizeof(pid), "LISTEN_PID=%d", (int)getpid());
	execve(path, argv, envp);
	dprintf(STDERR_FILENO, "cannot execute %s: %s\n", path, strerror(errno));
	_exit(127);
}

/* The daemon is nobody's child, so that whoever waits for children does not meet it. */
static int spawn(const char *path, int listener, int log)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return -errno;
	if (child == 0) {
		pid_t daemon = setsid() < 0 ? -1 : fork();

		if (daemon == 0)
			become_daemon(path, listener, log);
		_exit(daemon < 0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
}

static int start_daemon(const struct places *places, struct rf_diags *diags)
{
	_cleanup_free_ char *path = daemon_path();
	_cleanup_free_ char *log_path = NULL;
	_cleanup_fd_ int listener = -1;
	_cleanup_fd_ int log = -1;
	int err;

	if (!path || asprintf(&log_path, "%s/ringfenced.log", places->log_dir) < 0) {
		log_path = NULL;
		return -ENOMEM;
	}
	if (access(path, X_OK)) {
		err = -errno;
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			"install ringfence, or name the daemon in RINGFENCED",
			"cannot execute ringfenced at %s: %s", path, strerror(-err));
		return err;
	}
	err = make_dir(places->log_dir, diags);
	if (err)
		return err;
	log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (log < 0) {
		err = -errno;
		rf_diag(diags, RF_ERROR, log_path, 0, 0, NULL, "cannot open the daemon's log: %s",
			strerror(-err));
		return err;
	}
	err = make_listener(places, &listener);
	if (!err)
		err = spawn(path, listener, log);
	if (err)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot start ringfenced: %s",
			strerror(-err));
	return err;
}

static int open_file(const struct places *places, const char *name, struct rf_diags *diags,
		     int *ret_fd)
{
	_cleanup_free_ char *path = NULL;
	int err;

	if (asprintf(&path, "%s/%s", places->run_dir, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	*ret_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*ret_fd >= 0)
		return 0;
	err = -errno;
	rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot open %s: %s", path, strerror(-err));
	return err;
}

static bool nobody_listens(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED;
}

/* Did it go away before it could answer? */
static bool hung_up(int err)
{
	return err == -ECONNRESET || err == -EPIPE;
}

static int open_log(const struct places *places)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/ringfenced.log", places->log_dir) < 0) {
		path = NULL;
		return -1;
	}
	return open(path, O_RDONLY | O_CLOEXEC);
}

static off_t log_size(const struct places *places)
{
	_cleanup_fd_ int fd = open_log(places);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

	return size > 0 ? size : 0;
}

/*
 * The last line of the daemon's log beyond `from`, to say why it left. NULL: it said
 * nothing, as one that was killed.
 */
static char *last_words(const struct places *places, off_t from)
{
	_cleanup_fd_ int fd = open_log(places);
	char text[2048], *line;
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	ssize_t n;

	if (size <= from)
		return NULL;
	if (size - from >= (off_t)sizeof(text))
		from = size - (off_t)sizeof(text) + 1;
	n = pread(fd, text, sizeof(text) - 1, from);
	if (n <= 0)
		return NULL;
	if (text[n - 1] == '\n')
		n--;
	text[n] = 0;
	line = strrchr(text, '\n');
	return strdup(line ? line + 1 : text);
}

/*
 * Under start.lock, which a daemon that leaves holds until it is gone: connect, or
 * start one and connect.
 */
static int connect_or_start(const struct places *places, struct rf_diags *diags,
			    struct rf_client **ret_client)
{
	_cleanup_fd_ int start_lock = -1;
	_cleanup_fd_ int lock = -1;
	_cleanup_free_ char *words = NULL;
	size_t errors = diags->errors;
	off_t log_end = 0;
	bool started = false;
	int err = make_dir(places->run_dir, diags);

	if (!err)
		err = open_file(places, "start.lock", diags, &start_lock);
	if (!err)
		err = open_file(places, "lock", diags, &lock);
	if (err)
		return err;
	while (flock(start_lock, LOCK_EX))
		if (errno != EINTR)
			return -errno;
	for (int i = 0; i < TRIES; i++) {
		err = connect_and_greet(places, diags, ret_client);
		if (diags->errors > errors || (!nobody_listens(err) && !hung_up(err)))
			return err;
		if (started && hung_up(err))
			break; /* it has left at once */
		/* One that is just starting or leaving has the lock, but no socket. */
		if (flock(lock, LOCK_EX | LOCK_NB)) {
			usleep(TRY_USEC);
			continue;
		}
		flock(lock, LOCK_UN);
		if (started)
			break;
		log_end = log_size(places);
		err = start_daemon(places, diags);
		if (err)
			return err;
		started = true;
	}
	words = last_words(places, log_end);
	err = started ? -ECONNRESET : -EBUSY;
	if (started)
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			words ? words : "did the kernel kill it, for lack of memory? See dmesg",
			"ringfenced left at once; its log is %s/ringfenced.log", places->log_dir);
	else
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "stop it and try again",
			"a ringfenced is running, but does not listen on %s",
			places->address.sun_path);
	return err;
}

static int check_connect(const struct places *places, int err, struct rf_diags *diags)
{
	if (nobody_listens(err))
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			"start it: systemctl start ringfenced, or ringfence run as root",
			"ringfenced is not running");
	else if (err == -EACCES || err == -EPERM)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "use sudo",
			"only root may use ringfence in this version");
	else if (err == -EAGAIN)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "look at its log",
			"ringfenced does not answer");
	else
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot connect to %s: %s",
			places->address.sun_path, strerror(-err));
	return err;
}

int rf_client_connect_at(const char *run_dir, const char *log_dir, bool start,
			 struct rf_diags *diags, struct rf_client **ret_client)
{
	struct places places = {
		.run_dir = run_dir, .log_dir = log_dir, .address = {.sun_family = AF_UNIX}};
	size_t errors = diags->errors;
	int err, n = snprintf(places.address.sun_path, sizeof(places.address.sun_path),
			      "%s/control.sock", run_dir);

	if (n < 0 || (size_t)n >= sizeof(places.address.sun_path))
		return -ENAMETOOLONG;
	if (start && geteuid() == 0)
		err = connect_or_start(&places, diags, ret_client);
	else
		err = connect_and_greet(&places, diags, ret_client);
	/* Met one that was just leaving. */
	if (hung_up(err) && !start && diags->errors == errors)
		err = connect_and_greet(&places, diags, ret_client);
	if (err && diags->errors == errors)
		check_connect(&places, err, diags);
	return err;
}

int rf_client_connect(bool start, struct rf_diags *diags, struct rf_client **ret_client)
{
	return rf_client_connect_at(RF_RUN_DIR, RF_LOG_DIR, start, diags, ret_client);
}
