/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What single acts cost: does each act that is named many times and prints a line of the
 * act, its argument, and the nanoseconds that one of them took. In a machine that counts
 * instructions (selftests/vm/run -i) these are executed instructions, of this process and
 * of the kernel for it. With --landlock the process first confines itself to the rules
 * in a file, as to compare with.
 *
 *   acts [--landlock RULES] [ACT ARGUMENT]...
 *
 *   open PATH     open for reading and close, again and again
 *   first DIR     the same on each file in DIR, once; their names are looked up before
 *   create PATH   create, close and unlink
 *   stat PATH
 *   exec COMMAND  fork, execve, wait; words are separated by blanks
 *   start COMMAND the same, less the time in which the machine had nothing to do: what
 *                 others do for it counts
 *   udp PORT      connect to 127.0.0.1
 *   tcp PORT      connect to 127.0.0.1, where nobody listens: it is refused at once
 *   sleep SECONDS nothing: let the machine settle
 *   await PATH    nothing, until there is such a file
 *
 * A line of RULES is "r PATH" (read and execute below PATH), "a PATH" (all rights) or
 * "c PORT" (connect to a port of TCP, where the kernel knows such rules).
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A batch is short, so that most see no timer interrupt; the figure is their median. */
#define BATCHES 31
#define MAX_FILES 4096
#define MAX_WORDS 16

/* ---- Landlock ------------------------------------------------------------------ */

/* What headers older than the kernel do not know. */
struct ruleset_attr {
	uint64_t fs, net;
};

struct net_port_attr {
	uint64_t access, port;
};
#define RULE_NET_PORT 2
#define ACCESS_CONNECT_TCP 2

static uint64_t all_rights(int abi)
{
	uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

	if (abi >= 2)
		rights |= 1 << 13; /* refer */
	if (abi >= 3)
		rights |= 1 << 14; /* truncate */
	if (abi >= 5)
		rights |= 1 << 15; /* ioctl on devices */
	return rights;
}

static void add_rule(int ruleset, int type, const void *attr)
{
	if (syscall(SYS_landlock_add_rule, ruleset, type, attr, 0))
		err(1, "landlock_add_rule");
}

static void confine(const char *path)
{
	const uint64_t read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
			      LANDLOCK_ACCESS_FS_EXECUTE;
	int abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_attr attr = {
		.fs = all_rights(abi),
		.net = abi >= 4 ? ACCESS_CONNECT_TCP : 0,
	};
	char verb, name[4096];
	int ruleset;
	FILE *file;

	ruleset = syscall(SYS_landlock_create_ruleset, &attr,
			  abi >= 4 ? sizeof(attr) : sizeof(attr.fs), 0);
	file = fopen(path, "re");
	if (ruleset < 0 || !file)
		err(1, "%s", ruleset < 0 ? "landlock_create_ruleset" : path);
	while (fscanf(file, "%c %4095s\n", &verb, name) == 2) {
		struct landlock_path_beneath_attr below = {
			.allowed_access = verb == 'r' ? read : attr.fs,
		};
		struct net_port_attr port = {.access = ACCESS_CONNECT_TCP};

		if (verb == 'c') {
			port.port = strtoul(name, NULL, 10);
			if (attr.net)
				add_rule(ruleset, RULE_NET_PORT, &port);
			continue;
		}
		below.parent_fd = open(name, O_PATH | O_CLOEXEC);
		if (below.parent_fd < 0)
			err(1, "%s", name);
		add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, &below);
		close(below.parent_fd);
	}
	fclose(file);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_landlock_restrict_self, ruleset, 0))
		err(1, "landlock_restrict_self");
	close(ruleset);
}

/* ---- the acts ------------------------------------------------------------------ */

static struct sockaddr_in peer = {.sin_family = AF_INET};
static int sock;
static char *files[MAX_FILES];
static unsigned int nfiles;

static void act_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	close(fd);
}

static void act_create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || close(fd) || unlink(path))
		err(1, "%s", path);
}

static void act_stat(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		err(1, "%s", path);
}

static void act_exec(const char *command)
{
	char *argv[MAX_WORDS + 1], *words = strdup(command), *rest = words;
	int status, n = 0;
	pid_t pid;

	if (!words)
		err(1, "strdup");
	do
		argv[n++] = strsep(&rest, " ");
	while (rest && n < MAX_WORDS);
	argv[n] = NULL;
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		errx(1, "%s: failed", command);
	free(words);
}

static void act_udp(const char *port)
{
	(void)port;
	if (connect(sock, (struct sockaddr *)&peer, sizeof(peer)))
		err(1, "connect");
}

static void act_tcp(const char *port)
{
	(void)port;
	if (!connect(sock, (struct sockaddr *)&peer, sizeof(peer)) || errno != ECONNREFUSED)
		err(1, "connect");
}

static void open_socket(int type, const char *port)
{
	sock = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (sock < 0)
		err(1, "socket");
	peer.sin_port = htons(strtoul(port, NULL, 10));
	peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* The files in a directory, each looked up once. */
static void list(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir)
		err(1, "%s", path);
	nfiles = 0;
	while ((entry = readdir(dir)) && nfiles < MAX_FILES) {
		if (*entry->d_name == '.')
			continue;
		if (asprintf(&files[nfiles], "%s/%s", path, entry->d_name) < 0)
			err(1, "asprintf");
		act_stat(files[nfiles++]);
	}
	closedir(dir);
	if (!nfiles)
		errx(1, "%s: no files", path);
}

/* ---- measuring ----------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void say(const char *act, const char *argument, double ns)
{
	printf("%s %s %.1f\n", act, argument, ns);
	fflush(stdout);
}

/* How long the machine has had nothing to do. */
static double idle(void)
{
	FILE *file = fopen("/proc/timer_list", "re");
	char line[256];
	double ns = -1;

	if (!file)
		err(1, "/proc/timer_list");
	while (ns < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, " .idle_sleeptime : %lf", &ns) != 1)
			ns = -1;
	fclose(file);
	if (ns < 0)
		errx(1, "/proc/timer_list does not tell for how long the machine was idle");
	return ns;
}

/* The median over batches; one is not counted. */
static void repeat(void (*act)(const char *), const char *name, const char *argument,
		   unsigned int count, bool busy)
{
	double figures[BATCHES], start, before;

	for (unsigned int i = 0; i < count; i++)
		act(argument);
	for (unsigned int batch = 0; batch < BATCHES; batch++) {
		before = busy ? idle() : 0;
		start = now();
		for (unsigned int i = 0; i < count; i++)
			act(argument);
		figures[batch] = now() - start;
		if (busy)
			figures[batch] -= idle() - before;
		figures[batch] /= count;
	}
	qsort(figures, BATCHES, sizeof(*figures), compare);
	say(name, argument, figures[BATCHES / 2]);
}

/* The median over batches of files, each of them once. */
static void once(void (*act)(const char *), const char *name, const char *argument)
{
	const unsigned int count = 16;
	double figures[MAX_FILES / 16], start;
	unsigned int batches;

	list(argument);
	batches = nfiles / count;
	if (!batches)
		errx(1, "%s: too few files", argument);
	for (unsigned int batch = 0; batch < batches; batch++) {
		start = now();
		for (unsigned int i = 0; i < count; i++)
			act(files[batch * count + i]);
		figures[batch] = (now() - start) / count;
	}
	qsort(figures, batches, sizeof(*figures), compare);
	say(name, argument, figures[batches / 2]);
}

int main(int argc, char **argv)
{
	int i = 1;

	if (argc > 2 && !strcmp(argv[1], "--landlock")) {
		confine(argv[2]);
		i = 3;
	}
	for (; i + 1 < argc; i += 2) {
		const char *act = argv[i], *argument = argv[i + 1];

		if (!strcmp(act, "open")) {
			repeat(act_open, act, argument, 40, false);
		} else if (!strcmp(act, "first")) {
			once(act_open, act, argument);
		} else if (!strcmp(act, "create")) {
			repeat(act_create, act, argument, 10, false);
		} else if (!strcmp(act, "stat")) {
			repeat(act_stat, act, argument, 40, false);
		} else if (!strcmp(act, "exec")) {
			repeat(act_exec, act, argument, 1, false);
		} else if (!strcmp(act, "start")) {
			repeat(act_exec, act, argument, 1, true);
		} else if (!strcmp(act, "udp")) {
			open_socket(SOCK_DGRAM, argument);
			repeat(act_udp, act, argument, 40, false);
		} else if (!strcmp(act, "tcp")) {
			open_socket(SOCK_STREAM, argument);
			repeat(act_tcp, act, argument, 20, false);
		} else if (!strcmp(act, "sleep")) {
			sleep(strtoul(argument, NULL, 10));
		} else if (!strcmp(act, "await")) {
			while (access(argument, F_OK))
				usleep(10000);
		} else {
			errx(2, "no such act: %s", act);
		}
	}
	return 0;
}
