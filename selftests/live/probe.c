/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One act on the kernel for a live test, in one process, with nothing else that a
 * policy could stop in between.
 *
 *   probe [-e ERRNO] ACT ARG...
 *
 * Exit status: 0 the act succeeded, 10 it failed with ERRNO (default EACCES), 11
 * with another errno (printed), 12 it was not attempted (what it needs first failed).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALLOWED = 0, EXPECTED = 10, OTHER = 11, NOT_ATTEMPTED = 12 };

#include "selftests/live/probe_net.h"
#include "selftests/live/probe_race.h"
#include "selftests/live/unescape.h"

static int expected = EACCES;

static int not_attempted(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	return NOT_ATTEMPTED;
}

/* The act's result as an exit status: r < 0 is failure with errno. */
static int result(int r)
{
	if (r >= 0)
		return ALLOWED;
	if (errno == expected)
		return EXPECTED;
	fprintf(stderr, "probe: %s\n", strerror(errno));
	return OTHER;
}

static int flags_of(const char *mode)
{
	static const struct {
		const char *name;
		int flags;
	} modes[] = {
		{"r", O_RDONLY},
		{"w", O_WRONLY},
		{"rw", O_RDWR},
		{"a", O_WRONLY | O_APPEND},
		{"trunc", O_RDONLY | O_TRUNC},
		{"creat", O_WRONLY | O_CREAT},
		{"ioctl", 3},
		{"path", O_PATH},
		{"dir", O_RDONLY | O_DIRECTORY},
		{"tmpfile", O_RDWR | O_TMPFILE},
	};
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, mode) == 0)
			return modes[i].flags | O_CLOEXEC;
	fprintf(stderr, "probe: unknown mode %s\n", mode);
	exit(NOT_ATTEMPTED);
}

static int open_dir(const char *path)
{
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* open PATH MODE */
static int act_open(char **args)
{
	return result(open(args[0], flags_of(args[1]), 0600));
}

/* openat DIR NAME MODE */
static int act_openat(char **args)
{
	int dir = open_dir(args[0]);

	if (dir < 0)
		return not_attempted(args[0]);
	return result(openat(dir, args[1], flags_of(args[2]), 0600));
}

/* openat2 DIR NAME MODE: with RESOLVE_BENEATH */
static int act_openat2(char **args)
{
	struct open_how how = {.flags = flags_of(args[2]), .resolve = RESOLVE_BENEATH};
	int dir = open_dir(args[0]);

	if (dir < 0)
		return not_attempted(args[0]);
	return result(syscall(SYS_openat2, dir, args[1], &how, sizeof(how)));
}

/* chdir DIR NAME MODE */
static int act_chdir(char **args)
{
	if (chdir(args[0]) < 0)
		return not_attempted(args[0]);
	return result(open(args[1], flags_of(args[2]), 0600));
}

/* fchdir DIR NAME MODE */
static int act_fchdir(char **args)
{
	int dir = open_dir(args[0]);

	if (dir < 0 || fchdir(dir) < 0)
		return not_attempted(args[0]);
	return result(open(args[1], flags_of(args[2]), 0600));
}

/* fd PREFIX PATH MODE: an O_PATH descriptor opened again as PREFIX/N */
static int act_fd(char **args)
{
	int fd = open(args[1], O_PATH | O_CLOEXEC);
	char name[64];

	if (fd < 0)
		return not_attempted(args[1]);
	snprintf(name, sizeof(name), "%s/%d", args[0], fd);
	return result(open(name, flags_of(args[2])));
}

/* gone DIR NAME MODE: from within DIR, after `sync` says (on stdin) that DIR was removed */
static int act_gone(char **args)
{
	char byte;

	if (chdir(args[0]) < 0)
		return not_attempted(args[0]);
	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) != 1)
		return not_attempted("stdin");
	return result(open(args[1], flags_of(args[2])));
}

static void *thread_open(void *args)
{
	return (void *)(long)act_open(args);
}

/* thread PATH MODE */
static int act_thread(char **args)
{
	pthread_t thread;
	void *status;

	if (pthread_create(&thread, NULL, thread_open, args) != 0 ||
	    pthread_join(thread, &status) != 0)
		return not_attempted("thread");
	return (int)(long)status;
}

/* fork PATH MODE: in a grandchild of a new session whose parent is gone */
static int act_fork(char **args)
{
	int status, ends[2];
	char byte;
	pid_t pid;

	if (pipe(ends) < 0)
		return not_attempted("pipe");
	pid = fork();
	if (pid == 0) {
		setsid();
		if (fork() == 0) {
			while (getppid() == pid)
				;
			byte = (char)act_open(args);
			if (write(ends[1], &byte, 1) != 1)
				_exit(NOT_ATTEMPTED);
		}
		_exit(0);
	}
	close(ends[1]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return not_attempted("fork");
	return read(ends[0], &byte, 1) == 1 ? byte : not_attempted("grandchild");
}

/* exec PATH: become it, with one argument "-c" "exit 0" for shells */
static int act_exec(char **args)
{
	execl(args[0], args[0], "-c", "exit 0", NULL);
	return result(-1);
}

/* memfd: open an own memory file again through /proc */
static int act_memfd(char **args)
{
	char name[64];
	int fd = memfd_create("probe", 0);

	(void)args;
	if (fd < 0)
		return not_attempted("memfd");
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return result(open(name, O_RDWR));
}

/* pipe: open an own pipe again through /proc */
static int act_pipe(char **args)
{
	char name[64];
	int ends[2];

	(void)args;
	if (pipe(ends) < 0)
		return not_attempted("pipe");
	snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[1]);
	return result(open(name, O_WRONLY));
}

/*
 * deep DIR NAME MODE: go down name by name (NAME = "COMPONENT*COUNT/FILE"), so
 * that paths longer than PATH_MAX can be reached; makes nothing.
 */
static int act_deep(char **args)
{
	char *component = strdup(args[1]), *star = strrchr(component, '*'), *file;
	long i, n;

	if (!star)
		return not_attempted("NAME*COUNT/FILE");
	*star = '\0';
	n = strtol(star + 1, &file, 10);
	if (chdir(args[0]) < 0)
		return not_attempted(args[0]);
	for (i = 0; i < n; i++)
		if (chdir(component) < 0)
			return not_attempted(component);
	return result(open(file + 1, flags_of(args[2]), 0600));
}

/* wait PATH MODE: open it, print the status, each time a byte comes on stdin, until it ends */
static int act_wait(char **args)
{
	char byte;

	while (read(0, &byte, 1) == 1) {
		int fd = open(args[0], flags_of(args[1]));

		printf("%d\n", fd < 0 ? errno : 0);
		fflush(stdout);
		if (fd >= 0)
			close(fd);
	}
	return ALLOWED;
}

/* open_tree DIR NAME: a file below a clone of DIR's tree, which is mounted nowhere */
static int act_open_tree(char **args)
{
	int tree = open_tree(AT_FDCWD, args[0], OPEN_TREE_CLONE);

	if (tree < 0)
		return not_attempted(args[0]);
	return result(openat(tree, args[1], O_RDONLY));
}

/* fsopen TYPE NAME: a file of a new file system, which is mounted nowhere */
static int act_fsopen(char **args)
{
	int fs = fsopen(args[0], FSOPEN_CLOEXEC), top;

	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return not_attempted(args[0]);
	top = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	if (top < 0)
		return not_attempted("fsmount");
	return result(openat(top, args[1], O_RDONLY));
}

/* type32 TEXT: into the terminal at stdin, by the system calls of 32-bit programs */
static int act_type32(char **args)
{
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	const char *text;
	long r = 0;

	if (low == MAP_FAILED)
		return not_attempted("mmap");
	for (text = args[0]; *text && r == 0; text++) {
		*low = *text;
		/* ioctl is 54 there */
		asm volatile("int $0x80"
			     : "=a"(r)
			     : "a"(54L), "b"(0L), "c"((long)TIOCSTI), "d"(low)
			     : "memory");
	}
	errno = (int)-r;
	return result(r < 0 ? -1 : 0);
}

/* chroot DIR PATH: PATH below the new root */
static int act_chroot(char **args)
{
	if (chroot(args[0]) || chdir("/"))
		return not_attempted(args[0]);
	return result(open(args[1], O_RDONLY));
}

/* pivot_root NEW OLD PATH */
static int act_pivot_root(char **args)
{
	if (syscall(SYS_pivot_root, args[0], args[1]) || chdir("/"))
		return not_attempted(args[0]);
	return result(open(args[2], O_RDONLY));
}

/* loop PATH MODE SECONDS: open it again and again; any success is exit 0, all EXPECTED exit 10 */
static int act_loop(char **args)
{
	struct timespec start, now;
	double seconds = atof(args[2]);
	unsigned long denied = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		int fd = open(args[0], flags_of(args[1]));

		if (fd >= 0 || errno != expected)
			return result(fd);
		denied++;
		/* A flood of events would keep the CPUs of an emulated machine from all else. */
		usleep(5000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
	printf("%lu\n", denied);
	return EXPECTED;
}

/* files PREFIX MODE COUNT: open PREFIX0 to PREFIX(COUNT - 1), all; any success is exit 0, all EXPECTED exit 10 */
static int act_files(char **args)
{
	long n = strtol(args[2], NULL, 10);
	int status = EXPECTED;
	char name[256];

	for (long i = 0; i < n; i++) {
		int fd;

		snprintf(name, sizeof(name), "%s%ld", args[0], i);
		fd = open(name, flags_of(args[1]));
		if (fd < 0 && errno != expected)
			return result(fd);
		if (fd >= 0) {
			status = ALLOWED;
			close(fd);
		}
	}
	return status;
}

/*
 * flood PATH MODE COUNT: open PATH COUNT times in each of two processes, and after each
 * quarter a file of its own, PATH0, PATH1, ...; all EXPECTED is exit 10
 */
static int act_flood(char **args)
{
	long n = strtol(args[2], NULL, 10);
	int status, worst = EXPECTED;

	for (long child = 0; child < 2; child++) {
		pid_t pid = fork();

		if (pid < 0)
			return not_attempted("fork");
		for (long i = 0; !pid && i < n; i++) {
			char name[256];
			int fd = open(args[0], flags_of(args[1]));

			if (fd >= 0 || errno != expected)
				_exit(result(fd));
			if ((i + 1) % (n / 4))
				continue;
			snprintf(name, sizeof(name), "%s%ld", args[0], child * 4 + i / (n / 4));
			fd = open(name, flags_of(args[1]));
			if (fd >= 0 || errno != expected)
				_exit(result(fd));
		}
		if (!pid)
			_exit(EXPECTED);
	}
	for (int child = 0; child < 2; child++)
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != EXPECTED)
			worst = OTHER;
	return worst;
}

/* The errno of an execve of PATH in a child, 0 if it became it or the file is no program. */
static int try_exec(const char *path)
{
	int status, error = 0, ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	pid = fork();
	if (pid == 0) {
		close(0);
		close(1);
		close(2);
		execl(path, path, NULL);
		error = errno == ENOEXEC ? 0 : errno;
		_exit(write(ends[1], &error, sizeof(error)) == sizeof(error) ? 0 : 1);
	}
	close(ends[1]);
	if (pid < 0 || read(ends[0], &error, sizeof(error)) < 0)
		error = errno;
	close(ends[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return error;
}

/* The errno of a connection or message to "HOST PORT"; a refused one has reached the host. */
static int try_net(const char *proto, char *object)
{
	char *port = strchr(object, ' ');
	struct peer peer;
	int fd, r;

	if (!port)
		return EINVAL;
	*port++ = '\0';
	if (!peer_of(object, port, &peer))
		return EINVAL;
	fd = socket_of(peer.family, strcmp(proto, "tcp") ? "udp" : "tcp");
	if (fd < 0)
		return errno;
	if (!strcmp(proto, "send"))
		r = (int)sendto(fd, "x", 1, 0, &peer.address.any, peer.size);
	else
		r = connect(fd, &peer.address.any, peer.size);
	r = r < 0 && errno != ECONNREFUSED ? errno : 0;
	close(fd);
	return r;
}

/* The errno of a mount of a tmpfs on `where`, undone at once. */
static int try_mount(const char *where)
{
	if (mount("none", where, "tmpfs", 0, NULL) < 0)
		return errno;
	return umount(where) < 0 ? errno : 0;
}

/* The errno of an open by a file handle of that type: "DIR HEX", of the file system of DIR. */
static int try_handle(int type, const char *object)
{
	union {
		struct file_handle head;
		unsigned char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} handle = {.head.handle_type = type};
	char dir[256], hex[2 * MAX_HANDLE_SZ + 1];
	int mount, fd, r = 0;
	unsigned int i;

	if (sscanf(object, "%255s %256s", dir, hex) != 2)
		return EINVAL;
	for (i = 0; sscanf(hex + 2 * i, "%2hhx", handle.head.f_handle + i) == 1; i++)
		handle.head.handle_bytes = i + 1;
	mount = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount < 0)
		return errno;
	fd = open_by_handle_at(mount, &handle.head, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		r = errno;
	else
		close(fd);
	close(mount);
	return r;
}

static int try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 || waitpid(pid, NULL, 0) < 0 ? errno : 0;
}

static int try_socket(int family, const char *rest)
{
	int type = 0, protocol = 0, fd;

	if (sscanf(rest, "%d %d", &type, &protocol) != 2)
		return EINVAL;
	fd = socket(family, type | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* Like act_netlink "set": the errno of asking for a change, 0 if the kernel has heard it. */
static int try_netlink(void)
{
	const struct nlmsghdr message = {
		.nlmsg_len = sizeof(message),
		.nlmsg_type = RTM_NEWLINK,
		.nlmsg_flags = NLM_F_REQUEST,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), r;

	if (fd < 0)
		return errno;
	r = send(fd, &message, sizeof(message), 0) < 0 ? errno : 0;
	close(fd);
	return r;
}

/* Typing into a pipe: ENOTTY, unless someone denies it before. */
static int try_type(void)
{
	return ioctl(1, TIOCSTI, "x") < 0 && errno != ENOTTY ? errno : 0;
}

/*
 * acts: one for each line of stdin, answered by a line with its errno. "open FLAGS PATH"
 * (a number; \xNN in a path is a byte), "exec 0 PATH", "tcp 0 HOST PORT", "udp 0 HOST PORT"
 * and "send 0 HOST PORT" (udp: connected, or not), "socket FAMILY TYPE PROTOCOL",
 * "mount 0 DIR", "handle TYPE DIR HEX", "fork 0 x", "netlink 0 x", "type 0 x".
 */
static int act_acts(char **args)
{
	char *line = NULL;
	size_t room = 0;

	(void)args;
	while (getline(&line, &room, stdin) > 0) {
		char kind[8], *object;
		int flags, at = 0, r;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%7s %d %n", kind, &flags, &at) != 2 || !at)
			return not_attempted(line);
		object = line + at;
		unescape(object);
		if (!strcmp(kind, "open")) {
			int fd = open(object, flags | O_CLOEXEC, 0755);

			r = fd < 0 ? errno : 0;
			if (fd >= 0)
				close(fd);
		} else if (!strcmp(kind, "exec")) {
			r = try_exec(object);
		} else if (!strcmp(kind, "socket")) {
			r = try_socket(flags, object);
		} else if (!strcmp(kind, "mount")) {
			r = try_mount(object);
		} else if (!strcmp(kind, "handle")) {
			r = try_handle(flags, object);
		} else if (!strcmp(kind, "fork")) {
			r = try_fork();
		} else if (!strcmp(kind, "netlink")) {
			r = try_netlink();
		} else if (!strcmp(kind, "type")) {
			r = try_type();
		} else {
			r = try_net(kind, object);
		}
		printf("%d\n", r);
		fflush(stdout);
	}
	free(line);
	return ALLOWED;
}

struct hammer {
	char *allowed, *denied;
	char *const *hosts; /* the same of addresses */
	volatile bool begin, end;
	unsigned long checks, wrong;
};

static bool judged_right(struct hammer *hammer, char *path, const char *host, int errors)
{
	char *const argv[] = {path, NULL}, *const environment[] = {NULL};
	struct peer peer;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool right = errors ? fd < 0 && errno == errors : fd >= 0;

	if (fd >= 0)
		close(fd);
	/* It is text: the kernel opens it, as it does a program, and gives it back. */
	execve(path, argv, environment);
	if (errno != (errors ? errors : ENOEXEC))
		right = false;
	if (!peer_of(host, "1", &peer))
		return false;
	fd = socket(peer.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, &peer.address.any, peer.size) == 0 ||
	    errno != (errors ? errors : ECONNREFUSED))
		right = false;
	close(fd);
	__atomic_fetch_add(&hammer->checks, 3, __ATOMIC_RELAXED);
	return right;
}

static void *hammer_thread(void *argument)
{
	struct hammer *hammer = argument;

	/* While one executes, clone(2) of another is refused (EAGAIN). */
	while (!hammer->begin)
		usleep(1000);
	while (!hammer->end) {
		if (!judged_right(hammer, hammer->allowed, hammer->hosts[0], 0) ||
		    !judged_right(hammer, hammer->denied, hammer->hosts[1], expected))
			__atomic_fetch_add(&hammer->wrong, 1, __ATOMIC_RELAXED);
		usleep(2000); /* a flood of events would leave nothing to all else */
	}
	return NULL;
}

/*
 * hammer ALLOWED DENIED HOST HOST THREADS: open and execute these texts, which have four letters at least,
 * and connect, until stdin ends, and say how many went wrong
 */
static int act_hammer(char **args)
{
	struct hammer hammer = {.allowed = args[0], .denied = args[1], .hosts = args + 2};
	int n = atoi(args[4]);
	pthread_t threads[64];
	char byte;

	if (n < 1 || n > 64)
		return not_attempted("THREADS");
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, hammer_thread, &hammer))
			return not_attempted("thread");
	hammer.begin = true;
	while (read(0, &byte, 1) > 0)
		;
	hammer.end = true;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%lu checks, %lu wrong\n", hammer.checks, hammer.wrong);
	return hammer.wrong ? OTHER : ALLOWED;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int args; /* at least, if negative */
		int (*act)(char **args);
	} acts[] = {
		{"open", 2, act_open},		 {"openat", 3, act_openat},
		{"openat2", 3, act_openat2},	 {"chdir", 3, act_chdir},
		{"fchdir", 3, act_fchdir},	 {"fd", 3, act_fd},
		{"gone", 3, act_gone},		 {"thread", 2, act_thread},
		{"fork", 2, act_fork},		 {"exec", 1, act_exec},
		{"memfd", 0, act_memfd},	 {"pipe", 0, act_pipe},
		{"deep", 3, act_deep},		 {"wait", 2, act_wait},
		{"open_tree", 2, act_open_tree}, {"type32", 1, act_type32},
		{"chroot", 2, act_chroot},	 {"pivot_root", 3, act_pivot_root},
		{"loop", 3, act_loop},		 {"files", 3, act_files},
		{"flood", 3, act_flood},	 {"net", 4, act_net},
		{"again", 5, act_again},	 {"bound", 5, act_bound},
		{"socket", 3, act_socket},	 {"netlink", 1, act_netlink},
		{"moves", -4, act_moves},	 {"opens", -2, act_opens},
		{"flips", 4, act_flips},	 {"fsopen", 2, act_fsopen},
		{"acts", 0, act_acts},		 {"hammer", 5, act_hammer},
	};
	size_t i;

	argc--;
	argv++;
	if (argc >= 2 && strcmp(argv[0], "-e") == 0) {
		expected = atoi(argv[1]);
		argc -= 2;
		argv += 2;
	}
	for (i = 0; argc && i < sizeof(acts) / sizeof(acts[0]); i++)
		if (strcmp(acts[i].name, argv[0]) == 0 &&
		    (acts[i].args == argc - 1 || (acts[i].args < 0 && -acts[i].args <= argc - 1)))
			return acts[i].act(argv + 1);
	fprintf(stderr, "probe: unknown act or wrong number of arguments\n");
	return NOT_ATTEMPTED;
}
