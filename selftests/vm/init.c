// SPDX-License-Identifier: BSD-2-Clause
/*
 * Process 1 of the test machine, from the initramfs on: mounts the disks, sets
 * the system up, runs the command that run was called with, sends its output,
 * what it left in /out and its status to the host, and powers off. A program
 * and not a script, since starting one takes 0.1 s and more in this machine.
 *
 * The host gives /rig/mode (command, tty or pipe), /rig/argv and /rig/env (each
 * string ended by a 0 byte). It listens at named virtio-serial ports: stdout,
 * stderr, out (a tar of /out), dmesg, and status, which gets the line "started"
 * and at the end "exit STATUS" with the number of bytes that went into stdout,
 * stderr and out: the host can so tell a complete run.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* How long output may still come from processes that were killed. */
#define DRAIN_MS 5000

/* A stream from a pipe of the guest to a port of the host. */
struct stream {
	const char *port;
	int from;
	int to;
	unsigned long long bytes;
};

struct mount_point {
	const char *type;
	const char *dir;
	unsigned long flags;
	const char *options;
	bool optional;
};

static const struct mount_point mount_points[] = {
	{"devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666", false},
	{"tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777", false},
	{"tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=755", false},
	{"tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777", false},
	{"cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, false},
	{"bpf", "/sys/fs/bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700", false},
	{"securityfs", "/sys/kernel/security", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, false},
	/* a locked down kernel has neither */
	{"debugfs", "/sys/kernel/debug", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, true},
	{"tracefs", "/sys/kernel/tracing", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, true},
};

static const struct {
	const char *to;
	const char *name;
} links[] = {
	{"/proc/self/fd", "/dev/fd"},
	{"/proc/self/fd/0", "/dev/stdin"},
	{"/proc/self/fd/1", "/dev/stdout"},
	{"/proc/self/fd/2", "/dev/stderr"},
};

static _Noreturn void power_off(void)
{
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	int error = errno;
	va_list args;

	fputs("rig: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(error));
	fflush(stderr);
	power_off();
}

static void write_all(int fd, const void *data, size_t size)
{
	const char *at = data;

	while (size > 0) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno != EINTR)
			die("cannot write to the host");
		if (n > 0) {
			at += n;
			size -= (size_t)n;
		}
	}
}

static char *grow(char *data, size_t size)
{
	char *grown = realloc(data, size);

	if (!grown)
		die("no memory");
	return grown;
}

/* The content of a file, with a 0 byte after its end. */
static char *read_file(const char *path, size_t *ret_size)
{
	size_t size = 0, room = 4096;
	char *data = grow(NULL, room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("cannot open %s", path);
	for (;;) {
		ssize_t n = read(fd, data + size, room - size - 1);

		if (n < 0)
			die("cannot read %s", path);
		if (n == 0)
			break;
		size += (size_t)n;
		if (room - size < 2) {
			room *= 2;
			data = grow(data, room);
		}
	}
	close(fd);
	data[size] = '\0';
	if (ret_size)
		*ret_size = size;
	return data;
}

/* The strings in a file as an array with a NULL at its end. */
static char **read_strings(const char *path)
{
	size_t size, count = 0;
	char *data = read_file(path, &size);
	char **strings;

	for (size_t i = 0; i < size; i++)
		count += data[i] == '\0';
	strings = calloc(count + 1, sizeof(*strings));
	if (!strings || count == 0)
		die("nothing in %s", path);
	for (size_t i = 0; i < count; i++) {
		strings[i] = data;
		data += strlen(data) + 1;
	}
	return strings;
}

static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY);

	for (int i = 0; i < 3; i++)
		if (fd >= 0 && fd != i)
			dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static void load_modules(void)
{
	char *list = read_file("/modules/order", NULL);
	char path[256], *name, *state = NULL;

	for (name = strtok_r(list, "\n", &state); name; name = strtok_r(NULL, "\n", &state)) {
		int fd;

		snprintf(path, sizeof(path), "/modules/%s", name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			die("cannot load %s", name);
		close(fd);
	}
	free(list);
}

static void enter_root(void)
{
	static const char *const moved[] = {"dev", "proc", "sys"};
	char dir[32];

	if (mount("/dev/vda", "/root", "ext4", MS_NOATIME, NULL))
		die("cannot mount the root image");
	if (mount("/dev/vdb", "/root/usr/lib/modules", "ext4", MS_RDONLY, NULL))
		die("cannot mount the modules");
	for (size_t i = 0; i < ARRAY_SIZE(moved); i++) {
		snprintf(dir, sizeof(dir), "/root/%s", moved[i]);
		if (mount(dir + strlen("/root"), dir, NULL, MS_MOVE, NULL))
			die("cannot move /%s", moved[i]);
	}
	if (chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		die("cannot enter the root image");
}

static void set_up(void)
{
	struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(mount_points); i++) {
		const struct mount_point *m = &mount_points[i];

		if (mkdir(m->dir, 0755) && errno != EEXIST && !m->optional)
			die("cannot make %s", m->dir);
		if (mount(m->type, m->dir, m->type, m->flags, m->options) && !m->optional)
			die("cannot mount %s", m->dir);
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlink(links[i].to, links[i].name) && errno != EEXIST)
			die("cannot make %s", links[i].name);
	if (mkdir("/run/lock", 0755) || mkdir("/run/user", 0755) || mkdir("/run/user/1000", 0700) ||
	    chown("/run/user/1000", 1000, 1000))
		die("cannot fill /run");
	if (sethostname("ringfence", strlen("ringfence")))
		die("cannot set the host name");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback))
		die("cannot bring up lo");
	close(fd);
}

/* Opens a port by its name; it appears a moment after its driver. */
static int open_port(const char *port, int flags)
{
	static const char class_dir[] = "/sys/class/virtio-ports";
	const struct timespec pause_time = {.tv_nsec = 10 * 1000 * 1000};

	for (int tries = 0; tries < 1000; tries++) {
		DIR *dir = opendir(class_dir);
		struct dirent *entry;

		while (dir && (entry = readdir(dir))) {
			char path[512], *name;
			bool found;
			int fd;

			snprintf(path, sizeof(path), "%s/%s/name", class_dir, entry->d_name);
			if (entry->d_name[0] == '.' || access(path, R_OK))
				continue;
			name = read_file(path, NULL);
			name[strcspn(name, "\n")] = '\0';
			found = strcmp(name, port) == 0;
			free(name);
			if (!found)
				continue;
			snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
			fd = open(path, flags | O_CLOEXEC);
			if (fd >= 0) {
				closedir(dir);
				return fd;
			}
		}
		if (dir)
			closedir(dir);
		nanosleep(&pause_time, NULL);
	}
	errno = ENOENT;
	die("no port %s", port);
}

/* Starts a program with the given files as its first three. */
static pid_t start(char *const argv[], int in, int out, int err, bool tty)
{
	pid_t pid = fork();
	sigset_t none;

	if (pid < 0)
		die("cannot fork");
	if (pid > 0)
		return pid;

	setsid();
	if (tty)
		ioctl(in, TIOCSCTTY, 0);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(126);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Copies what there is; at its end closes the stream. */
static void copy(struct stream *stream)
{
	static char buffer[64 * 1024];
	ssize_t n = read(stream->from, buffer, sizeof(buffer));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		close(stream->from);
		stream->from = -1;
		return;
	}
	write_all(stream->to, buffer, (size_t)n);
	stream->bytes += (unsigned long long)n;
}

/*
 * Serves the streams and reaps children until @pid has ended and, with all other
 * processes killed if @alone, the streams are at their end. Returns its status.
 */
static int serve(pid_t pid, struct stream *streams, size_t count, int signals, bool alone)
{
	struct signalfd_siginfo info;
	struct pollfd polls[3];
	bool ended = false;
	int result = 0;

	for (;;) {
		size_t open_streams = 0;
		int n;

		for (size_t i = 0; i < count; i++) {
			/* poll passes over a negative descriptor */
			polls[i] = (struct pollfd){.fd = streams[i].from, .events = POLLIN};
			open_streams += streams[i].from >= 0;
		}
		if (ended && open_streams == 0)
			return result;
		polls[count] = (struct pollfd){.fd = signals, .events = POLLIN};
		n = poll(polls, count + 1, ended ? DRAIN_MS : -1);
		if (n == 0)
			return result;
		for (size_t i = 0; i < count; i++)
			if (n > 0 && polls[i].revents)
				copy(&streams[i]);
		if (n > 0 && polls[count].revents) {
			pid_t child;
			int status;

			if (read(signals, &info, sizeof(info)) < 0)
				die("cannot read signals");
			while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
				if (child != pid)
					continue;
				ended = true;
				result = exit_status(status);
				if (alone)
					kill(-1, SIGKILL);
			}
		}
	}
}

/* A pipe into a stream; returns the end to write to. */
static int open_stream(struct stream *stream, const char *port)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		die("cannot make a pipe");
	/* whoever the command becomes may open /dev/stderr again */
	if (fchmod(fds[1], 0666))
		die("cannot open up a pipe");
	*stream = (struct stream){.port = port, .from = fds[0], .to = open_port(port, O_WRONLY)};
	return fds[1];
}

static int run_command(char *const argv[], bool piped, int status_port, struct stream *streams,
		       int signals)
{
	int out = open_stream(&streams[0], "stdout");
	int err = open_stream(&streams[1], "stderr");
	int in = piped ? open_port("stdin", O_RDONLY) : open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t pid;

	write_all(status_port, "started\n", strlen("started\n"));
	pid = start(argv, in, out, err, false);
	close(in);
	close(out);
	close(err);
	return serve(pid, streams, 2, signals, true);
}

static int run_shell(char *const argv[], int status_port, int signals)
{
	int tty = open("/dev/hvc0", O_RDWR | O_NOCTTY | O_CLOEXEC);
	const char *rows = getenv("LINES"), *columns = getenv("COLUMNS");
	struct winsize size = {
		.ws_row = (unsigned short)(rows ? atoi(rows) : 24),
		.ws_col = (unsigned short)(columns ? atoi(columns) : 80),
	};
	pid_t pid;

	if (tty < 0)
		die("no terminal");
	ioctl(tty, TIOCSWINSZ, &size);
	write_all(status_port, "started\n", strlen("started\n"));
	pid = start(argv, tty, tty, tty, true);
	return serve(pid, NULL, 0, signals, true);
}

static bool is_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool empty = true;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			empty = false;
	if (dir)
		closedir(dir);
	return empty;
}

static void unpack_payload(int signals)
{
	char *argv[] = {"tar", "-C",	   "/", "--no-overwrite-dir", "--keep-directory-symlink",
			"-xf", "/dev/vdc", NULL};

	if (serve(start(argv, 0, 1, 2, false), NULL, 0, signals, false) != 0) {
		errno = EIO;
		die("cannot unpack what the host gave");
	}
}

static void send_out(int signals, struct stream *stream)
{
	char *argv[] = {"tar", "-C", "/out", "-cf", "-", ".", NULL};
	int out = open_stream(stream, "out");
	pid_t pid;

	if (is_empty("/out")) {
		close(out);
		return;
	}
	pid = start(argv, 0, out, 2, false);
	close(out);
	if (serve(pid, stream, 1, signals, false) != 0) {
		errno = EIO;
		die("cannot pack /out");
	}
}

/* klogctl's actions have no names in a header. */
enum { READ_ALL = 3, SET_LEVEL = 8, GET_SIZE = 10 };

static void send_kernel_log(void)
{
	int size = klogctl(GET_SIZE, NULL, 0);
	char *log = size > 0 ? malloc((size_t)size) : NULL;

	size = log ? klogctl(READ_ALL, log, size) : -1;
	if (size < 0)
		die("cannot read the kernel's log");
	write_all(open_port("dmesg", O_WRONLY), log, (size_t)size);
}

int main(void)
{
	struct stream streams[3] = {{.from = -1}, {.from = -1}, {.from = -1}};
	char **argv, *mode;
	int status_port, signals, status;
	sigset_t child;

	if (getpid() != 1) {
		fputs("init: runs as process 1 of the test machine only\n", stderr);
		return 2;
	}
	umask(022);
	mkdir("/dev", 0755);
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/root", 0755);
	if (mount("dev", "/dev", "devtmpfs", MS_NOSUID, NULL))
		power_off();
	open_console();
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) ||
	    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		die("cannot mount /proc and /sys");
	load_modules();
	mode = read_file("/rig/mode", NULL);
	argv = read_strings("/rig/argv");
	environ = read_strings("/rig/env");
	enter_root();
	set_up();

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_CLOEXEC);
	if (signals < 0)
		die("cannot wait for children");
	unpack_payload(signals);
	if (chdir("/root"))
		die("cannot enter the home directory");

	/* from here on the console shows what the command makes the kernel say */
	klogctl(SET_LEVEL, NULL, 7);
	status_port = open_port("status", O_WRONLY);
	if (strcmp(mode, "tty") == 0)
		status = run_shell(argv, status_port, signals);
	else
		status =
			run_command(argv, strcmp(mode, "pipe") == 0, status_port, streams, signals);
	send_out(signals, &streams[2]);
	send_kernel_log();
	dprintf(status_port, "exit %d %llu %llu %llu\n", status, streams[0].bytes, streams[1].bytes,
		streams[2].bytes);
	close(status_port);
	power_off();
}
