/* SPDX-License-Identifier: BSD-2-Clause */
/* Acts to try a session with, see trial.h. */
#include "user/trial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <paths.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/cleanup.h"

#define SECONDS 60 /* after which a trial that hangs is ended */
#define TEXT 128

/* What takes connections or messages, on a port that the policy allows or denies. */
struct peer {
	int family, type;
	int fd[2]; /* by `denied`; -1: this machine cannot */
	uint16_t port[2];
};
enum { TCP4, TCP6, UDP4, UDP6, PEERS };

struct rf_trial {
	char *folder; /* canonical */
	char *program; /* that must not be executed: ourselves */
	int master, terminal;
	struct peer peers[PEERS];
	char objects[RF_TRIAL_PAIRS_MAX][TEXT];
};

/* ---- the acts: 0 or an errno ------------------------------------------------- */

static int open_in(const struct rf_trial *t, const char *folder, const char *name, int flags)
{
	_cleanup_free_ char *path = NULL;
	int fd;

	if (asprintf(&path, "%s/%s/%s", t->folder, folder, name) < 0) {
		path = NULL;
		return ENOMEM;
	}
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int act_open(const struct rf_trial *t, bool denied)
{
	return open_in(t, denied ? "secret" : "open", "read", O_RDONLY);
}

static int act_write(const struct rf_trial *t, bool denied)
{
	return open_in(t, denied ? "sealed" : "open", "write", O_WRONLY);
}

/* In a child: its errno is its exit status. */
static int in_child(int (*act)(const struct rf_trial *t, bool denied), const struct rf_trial *t,
		    bool denied)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return errno;
	if (child == 0)
		_exit(act(t, denied));
	if (waitpid(child, &status, 0) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static int execute(const struct rf_trial *t, bool denied)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	if (denied)
		execl(t->program, "ringfence", "--version", (char *)NULL);
	else
		execl(_PATH_BSHELL, "sh", "-c", "exit 0", (char *)NULL);
	return errno;
}

static int act_exec(const struct rf_trial *t, bool denied)
{
	return in_child(execute, t, denied);
}

static int open_of_child(const struct rf_trial *t, bool denied)
{
	return open_in(t, denied ? "secret" : "open", "fork", O_RDONLY);
}

static int act_fork(const struct rf_trial *t, bool denied)
{
	return in_child(open_of_child, t, denied);
}

static int act_ioctl(const struct rf_trial *t, bool denied)
{
	struct termios mode;

	return ioctl(t->terminal, denied ? TIOCSTI : TCGETS, denied ? (void *)"x" : (void *)&mode) <
			       0
		       ? errno
		       : 0;
}

/* The terminal that was there before, and a pty of one's own. */
static int act_pty(const struct rf_trial *t, bool denied)
{
	_cleanup_fd_ int master = denied ? -1 : posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	_cleanup_fd_ int fd = -1;
	char name[64];
	int r;

	if (!denied && (master < 0 || unlockpt(master) < 0))
		return errno;
	r = denied ? ttyname_r(t->terminal, name, sizeof(name))
		   : ptsname_r(master, name, sizeof(name));
	if (r)
		return r;
	fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? errno : 0;
}

static int act_socket(const struct rf_trial *t, bool denied)
{
	int fd = denied ? socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)
			: socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)t;
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t loopback(int family, uint16_t port, union address *ret_address)
{
	*ret_address = (union address){0};
	if (family == AF_INET) {
		ret_address->v4 = (struct sockaddr_in){.sin_family = AF_INET,
						       .sin_port = htons(port),
						       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		return sizeof(ret_address->v4);
	}
	ret_address->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
						.sin6_port = htons(port),
						.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	return sizeof(ret_address->v6);
}

static int reach(const struct peer *peer, bool denied)
{
	_cleanup_fd_ int fd = -1;
	union address to;
	socklen_t size = loopback(peer->family, peer->port[denied], &to);

	if (peer->fd[denied] < 0)
		return EAFNOSUPPORT;
	fd = socket(peer->family, peer->type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (peer->type == SOCK_STREAM)
		return connect(fd, &to.any, size) < 0 ? errno : 0;
	return sendto(fd, "", 1, 0, &to.any, size) < 0 ? errno : 0;
}

static int act_connect4(const struct rf_trial *t, bool denied)
{
	return reach(&t->peers[TCP4], denied);
}

static int act_connect6(const struct rf_trial *t, bool denied)
{
	return reach(&t->peers[TCP6], denied);
}

static int act_send4(const struct rf_trial *t, bool denied)
{
	return reach(&t->peers[UDP4], denied);
}

static int act_send6(const struct rf_trial *t, bool denied)
{
	return reach(&t->peers[UDP6], denied);
}

/* What asks to change something names no interface, so that nothing is changed. */
static int act_netlink(const struct rf_trial *t, bool denied)
{
	_cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr header;
		union {
			struct ifaddrmsg address;
			struct ifinfomsg link;
		} u;
	} message = {
		.header.nlmsg_len = sizeof(message),
		.header.nlmsg_type = denied ? RTM_DELADDR : RTM_GETLINK,
		.header.nlmsg_flags = denied ? NLM_F_REQUEST : NLM_F_REQUEST | NLM_F_DUMP,
	};

	(void)t;
	if (denied)
		message.u.address.ifa_family = AF_INET;
	if (fd < 0)
		return errno;
	return send(fd, &message, sizeof(message), 0) < 0 ? errno : 0;
}

/* A program on a file system of the session's own: there, and not to be executed. */
static int run_mounted(const struct rf_trial *t, bool denied)
{
	static const char script[] = "#!" _PATH_BSHELL "\nexit 0\n";
	_cleanup_fd_ int fd = -1;
	char text[sizeof(script)];

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    chdir(t->folder) < 0 || mount("tmpfs", "mount", "tmpfs", 0, NULL) < 0)
		return errno;
	fd = open("mount/script", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (fd < 0 || write(fd, script, sizeof(script) - 1) < 0)
		return errno;
	close(fd);
	fd = open("mount/script", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text)) < 0)
		return errno;
	if (!denied)
		return 0;
	execl("mount/script", "script", (char *)NULL);
	return errno;
}

static int act_mount(const struct rf_trial *t, bool denied)
{
	return in_child(run_mounted, t, denied);
}

static int act_moved(const struct rf_trial *t, bool denied)
{
	return open_in(t, denied ? "secret" : "open", "moved", O_RDONLY);
}

/* ---- the pairs ---------------------------------------------------------------- */

const struct rf_trial_pair rf_trial_pairs[] = {
	{"open", "reading a denied file", "reading another", "open"},
	{"write", "writing a denied file", "writing another", "open"},
	{"exec", "executing a denied program", "executing another", "exec"},
	{"fork", "reading a denied file in a child", "reading another", "open"},
	{"terminal", "typing into the terminal", "asking for its mode", "ioctl"},
	{"pty", "opening another's pty", "opening one of its own", "open"},
	{"socket", "making a raw socket", "making one of TCP", "socket"},
	{"connect-ipv4", "connecting to a denied port", "connecting to another", "connect"},
	{"connect-ipv6", "connecting to a denied port", "connecting to another", "connect"},
	{"send-ipv4", "sending to a denied port", "sending to another", "send"},
	{"send-ipv6", "sending to a denied port", "sending to another", "send"},
	{"netlink", "changing an interface's address", "listing interfaces", "send"},
	{"mount", "executing a program in a tmpfs of its own", "writing and reading there", "exec"},
	{"label", "reading a denied file, moved out of the cgroup", "reading another", "open"},
	{NULL, NULL, NULL, NULL},
};

/* In the same order; the last is done in another cgroup. */
static int (*const acts[])(const struct rf_trial *t, bool denied) = {
	act_open,     act_write,    act_exec,  act_fork,  act_ioctl,   act_pty,	  act_socket,
	act_connect4, act_connect6, act_send4, act_send6, act_netlink, act_mount, act_moved,
};
_Static_assert(RF_COUNT(acts) + 1 == RF_COUNT(rf_trial_pairs), "each pair has an act");
_Static_assert(RF_COUNT(acts) <= RF_TRIAL_PAIRS_MAX, "there is room for the results");

/* ---- what they are on --------------------------------------------------------- */

static int make_file(const struct rf_trial *t, const char *folder, const char *name)
{
	_cleanup_free_ char *path = NULL, *dir = NULL;
	_cleanup_fd_ int fd = -1;

	if (asprintf(&dir, "%s/%s", t->folder, folder) < 0) {
		dir = NULL;
		return -ENOMEM;
	}
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (!name)
		return 0;
	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : 0;
}

static int make_files(struct rf_trial *t)
{
	static const char *const files[][2] = {
		{"secret", "read"},  {"secret", "fork"}, {"secret", "moved"},
		{"sealed", "write"}, {"open", "read"},	 {"open", "fork"},
		{"open", "moved"},   {"open", "write"},	 {"mount", NULL},
	};
	char folder[] = _PATH_VARRUN "ringfence-doctor-XXXXXX";
	int r = 0;

	if (!mkdtemp(folder))
		return -errno;
	t->folder = realpath(folder, NULL);
	if (!t->folder) {
		r = -errno;
		rmdir(folder);
		return r;
	}
	t->program = realpath("/proc/self/exe", NULL);
	if (!t->program)
		return -errno;
	for (size_t i = 0; !r && i < RF_COUNT(files); i++)
		r = make_file(t, files[i][0], files[i][1]);
	return r;
}

static void remove_files(const struct rf_trial *t)
{
	static const char *const names[] = {"secret/read",
					    "secret/fork",
					    "secret/moved",
					    "secret",
					    "sealed/write",
					    "sealed",
					    "open/read",
					    "open/fork",
					    "open/moved",
					    "open/write",
					    "open",
					    "mount",
					    "."};
	_cleanup_free_ char *path = NULL;

	for (size_t i = 0; t->folder && i < RF_COUNT(names); i++) {
		free(path);
		if (asprintf(&path, "%s/%s", t->folder, names[i]) < 0)
			path = NULL;
		else
			remove(path);
	}
	if (t->folder)
		rmdir(t->folder);
}

static int make_terminal(struct rf_trial *t)
{
	char name[64];

	t->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->master < 0 || unlockpt(t->master) < 0)
		return -errno;
	if (ptsname_r(t->master, name, sizeof(name)) != 0)
		return -errno;
	t->terminal = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	return t->terminal < 0 ? -errno : 0;
}

/* A machine without IPv6, or with a loopback that is down, has none: its pair is not tried. */
static void make_peer(struct peer *peer, bool denied)
{
	union address own;
	socklen_t size = loopback(peer->family, 0, &own);
	_cleanup_fd_ int fd = socket(peer->family, peer->type | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, &own.any, size) < 0 ||
	    (peer->type == SOCK_STREAM && listen(fd, 16) < 0) ||
	    getsockname(fd, &own.any, &size) < 0)
		return;
	peer->port[denied] = ntohs(peer->family == AF_INET ? own.v4.sin_port : own.v6.sin6_port);
	peer->fd[denied] = rf_steal_fd(&fd);
}

static void name_objects(struct rf_trial *t)
{
	static const char *const files[] = {"secret/read", "sealed/write", NULL, "secret/fork"};
	char terminal[64] = "";
	size_t i;

	for (i = 0; i < RF_COUNT(files); i++)
		if (files[i])
			snprintf(t->objects[i], TEXT, "%s/%s", t->folder, files[i]);
	if (strlen(t->program) < TEXT)
		snprintf(t->objects[2], TEXT, "%.*s", TEXT - 1, t->program);
	if (ttyname_r(t->terminal, terminal, sizeof(terminal)) != 0)
		*terminal = '\0';
	snprintf(t->objects[i++], TEXT, "%s", terminal);
	snprintf(t->objects[i++], TEXT, "%s", terminal);
	snprintf(t->objects[i++], TEXT, "inet/%d", IPPROTO_ICMP);
	for (size_t k = 0; k < PEERS; k++) {
		const struct peer *peer = &t->peers[k];

		snprintf(t->objects[i++], TEXT, "%s:%u/%s",
			 peer->family == AF_INET ? "127.0.0.1" : "[::1]", peer->port[1],
			 peer->type == SOCK_STREAM ? "tcp" : "udp");
	}
	snprintf(t->objects[i], TEXT, "netlink");
	snprintf(t->objects[RF_COUNT(acts) - 1], TEXT, "%s/secret/moved", t->folder);
}

int rf_trial_new(struct rf_diags *diags, struct rf_trial **ret_trial)
{
	static const int kinds[PEERS][2] = {
		[TCP4] = {AF_INET, SOCK_STREAM},
		[TCP6] = {AF_INET6, SOCK_STREAM},
		[UDP4] = {AF_INET, SOCK_DGRAM},
		[UDP6] = {AF_INET6, SOCK_DGRAM},
	};
	struct rf_trial *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->master = t->terminal = -1;
	for (size_t i = 0; i < PEERS; i++) {
		t->peers[i] =
			(struct peer){.family = kinds[i][0], .type = kinds[i][1], .fd = {-1, -1}};
		make_peer(&t->peers[i], false);
		make_peer(&t->peers[i], true);
	}
	r = make_files(t);
	if (!r)
		r = make_terminal(t);
	if (r) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL,
			"cannot make the files and the terminal for the probes: %s", strerror(-r));
		rf_trial_free(t);
		return r;
	}
	name_objects(t);
	*ret_trial = t;
	return 0;
}

void rf_trial_free(struct rf_trial *t)
{
	if (!t)
		return;
	remove_files(t);
	for (size_t i = 0; i < PEERS; i++) {
		rf_closep(&t->peers[i].fd[0]);
		rf_closep(&t->peers[i].fd[1]);
	}
	rf_closep(&t->master);
	rf_closep(&t->terminal);
	free(t->folder);
	free(t->program);
	free(t);
}

/* ---- the policy ---------------------------------------------------------------- */

char *rf_trial_policy(const struct rf_trial *t)
{
	_cleanup_text_ struct rf_text text = {0};
	static const char head[] = "ringfence: 1\n"
				   "name: doctor\n"
				   "files:\n"
				   "  - {allow: all, paths: [/]}\n"
				   "  - {deny: all, paths: [\"${FOLDER}/secret\"]}\n"
				   "  - {deny: write, paths: [\"${FOLDER}/sealed\"]}\n"
				   "  - {deny: exec, paths: [\"${PROGRAM}\"]}\n"
				   "  - {deny: all, paths: [\"/dev/pts/[0-9]*\"]}\n"
				   "network:\n"
				   "  - {allow: connect, to: [\"*\"]}\n"
				   "  - {deny: connect, to: [\"192.0.2.1\"";
	char item[64];

	rf_text_add(&text, head, sizeof(head) - 1);
	for (size_t i = 0; i < PEERS; i++) {
		const struct peer *peer = &t->peers[i];
		int n;

		if (peer->fd[1] < 0)
			continue;
		n = snprintf(item, sizeof(item), ", \"%s:%u/%s\"",
			     peer->family == AF_INET ? "127.0.0.1" : "[::1]", peer->port[1],
			     peer->type == SOCK_STREAM ? "tcp" : "udp");
		rf_text_add(&text, item, (size_t)n);
	}
	rf_text_add(&text, "]}\n", sizeof("]}\n"));
	return text.failed ? NULL : rf_steal(&text.text);
}

const char *rf_trial_variable(const struct rf_trial *t, const char *name)
{
	if (!strcmp(name, "FOLDER"))
		return t->folder;
	return strcmp(name, "PROGRAM") ? NULL : t->program;
}

const char *rf_trial_object(const struct rf_trial *t, size_t pair)
{
	return t->objects[pair];
}

/* ---- a run ---------------------------------------------------------------------- */

static void do_acts(const struct rf_trial *t, int peer, struct rf_trial_result *results)
{
	char byte = 0;

	for (size_t i = 0; i < RF_COUNT(acts); i++) {
		/* Has it been moved for the last one? */
		if (i + 1 == RF_COUNT(acts) &&
		    (write(peer, "", 1) != 1 || read(peer, &byte, 1) != 1 || !byte))
			return;
		results[i].denied = acts[i](t, true);
		results[i].allowed = acts[i](t, false);
	}
}

__attribute__((noreturn)) static void child(const struct rf_trial *t, int cgroup_procs, int peer,
					    struct rf_trial_result *results)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	alarm(SECONDS);
	if (cgroup_procs >= 0 && write(cgroup_procs, "0", 1) != 1)
		_exit(EXIT_FAILURE);
	do_acts(t, peer, results);
	_exit(EXIT_SUCCESS);
}

/* Move it when it asks, and tell it. */
static void move(pid_t pid, int peer, const char *outside)
{
	_cleanup_fd_ int procs = outside ? open(outside, O_WRONLY | O_CLOEXEC) : -1;
	char byte, text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);

	if (read(peer, &byte, 1) != 1)
		return;
	byte = !outside || write(procs, text, (size_t)n) == n;
	(void)send(peer, &byte, 1, MSG_NOSIGNAL);
}

int rf_trial_run(struct rf_trial *t, int cgroup_procs, const char *outside,
		 struct rf_trial_result ret_results[RF_TRIAL_PAIRS_MAX])
{
	size_t size = RF_TRIAL_PAIRS_MAX * sizeof(*ret_results);
	struct rf_trial_result *results;
	int pair[2], status = 0, r = 0;
	pid_t pid;

	results = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		return -errno;
	for (size_t i = 0; i < RF_TRIAL_PAIRS_MAX; i++)
		results[i] = (struct rf_trial_result){-1, -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		munmap(results, size);
		return r;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		child(t, cgroup_procs, pair[1], results);
	}
	close(pair[1]);
	if (pid < 0) {
		r = -errno;
	} else {
		move(pid, pair[0], outside);
		if (waitpid(pid, &status, 0) < 0)
			r = -errno;
		else if (WIFSIGNALED(status))
			r = WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : -EINTR;
		else if (WEXITSTATUS(status))
			r = -ECHILD;
	}
	close(pair[0]);
	memcpy(ret_results, results, size);
	munmap(results, size);
	return r;
}
