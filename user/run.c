/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command of a session: who it runs as, how it enters the session, and how
 * its signals, stops and exit status pass through. See user/run.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/run.h"

int rf_run_stdio(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* The lowest free number is this one, since all below it are open. */
		if (open("/dev/null", O_RDWR) < 0)
			return -errno;
	}
	return 0;
}

/* ---- identity ---------------------------------------------------------- */

void rf_run_identity_done(struct rf_run_identity *identity)
{
	free(identity->groups);
	free(identity->name);
	free(identity->home);
	free(identity->shell);
	*identity = (struct rf_run_identity){0};
}
#define _cleanup_identity_ __attribute__((cleanup(rf_run_identity_done)))

/* A whole decimal number that is a uid; (uid_t)-1 means "no change" to the kernel. */
static bool parse_id(const char *text, uid_t *ret_id)
{
	unsigned long long value;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || value >= (uid_t)-1)
		return false;
	*ret_id = (uid_t)value;
	return true;
}

static int take_entry(struct rf_run_identity *identity, const struct passwd *entry)
{
	identity->uid = entry->pw_uid;
	identity->gid = entry->pw_gid;
	identity->name = strdup(entry->pw_name);
	identity->home = strdup(entry->pw_dir);
	identity->shell = strdup(*entry->pw_shell ? entry->pw_shell : "/bin/sh");
	return identity->name && identity->home && identity->shell ? 0 : -ENOMEM;
}

static int groups_of_user(struct rf_run_identity *identity)
{
	for (int n = 32;; n *= 2) {
		gid_t *groups = reallocarray(identity->groups, (size_t)n, sizeof(*groups));
		int count = n;

		if (!groups)
			return -ENOMEM;
		identity->groups = groups;
		if (getgrouplist(identity->name, identity->gid, groups, &count) >= 0) {
			identity->n_groups = count;
			return 0;
		}
		if (n >= 1 << 16) /* NGROUPS_MAX */
			return -ERANGE;
	}
}

static int groups_of_caller(struct rf_run_identity *identity)
{
	int n = getgroups(0, NULL);

	if (n <= 0)
		return n < 0 ? -errno : 0;
	identity->groups = calloc((size_t)n, sizeof(*identity->groups));
	if (!identity->groups)
		return -ENOMEM;
	n = getgroups(n, identity->groups);
	if (n < 0)
		return -errno;
	identity->n_groups = n;
	return 0;
}

int rf_run_identity(const char *user, struct rf_diags *diags, struct rf_run_identity *ret_identity)
{
	_cleanup_identity_ struct rf_run_identity identity = {.uid = getuid(), .gid = getgid()};
	const char *sudo = getenv("SUDO_UID");
	const struct passwd *entry;
	int r = 0;

	if (!user && sudo && geteuid() == 0)
		user = sudo;

	errno = 0;
	if (!user) {
		entry = getpwuid(identity.uid);
	} else {
		entry = getpwnam(user);
		if (!entry && parse_id(user, &identity.uid)) {
			identity.gid = identity.uid;
			entry = getpwuid(identity.uid);
		} else if (!entry) {
			rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "there is no user \"%s\"", user);
			return -ENOENT;
		}
	}
	if (entry)
		r = take_entry(&identity, entry);

	identity.change = user && (identity.uid != getuid() || identity.uid != geteuid());
	if (r == 0 && !identity.change) {
		identity.gid = getgid();
		r = groups_of_caller(&identity);
	} else if (r == 0 && identity.name) {
		r = groups_of_user(&identity);
	}
	if (r < 0) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot find out about the user: %s",
			strerror(-r));
		return r;
	}
	if (identity.change && geteuid() != 0) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "use sudo",
			"only root can run a command as another user");
		return -EPERM;
	}
	*ret_identity = identity;
	identity = (struct rf_run_identity){0};
	return 0;
}

/* ---- the child --------------------------------------------------------- */

/* What kept the child from executing the command, sent to the parent. */
enum step { STEP_STDIO, STEP_USER, STEP_PRIVS, STEP_ENTER, STEP_EXEC };
struct failure {
	enum step step;
	int error;
};

static const char *const step_text[] = {
	[STEP_STDIO] = "cannot prepare the command's descriptors",
	[STEP_USER] = "cannot become the command's user",
	[STEP_PRIVS] = "cannot set no_new_privs",
	[STEP_ENTER] = "cannot enter the session's cgroup",
};

static bool become(const struct rf_run_identity *identity)
{
	if (!identity->change)
		return true;
	if (setgroups((size_t)identity->n_groups, identity->groups) < 0 ||
	    setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
	    setresuid(identity->uid, identity->uid, identity->uid) < 0)
		return false;
	return (!identity->home || setenv("HOME", identity->home, 1) == 0) &&
	       (!identity->shell || setenv("SHELL", identity->shell, 1) == 0) &&
	       (!identity->name || (setenv("USER", identity->name, 1) == 0 &&
				    setenv("LOGNAME", identity->name, 1) == 0));
}

/* Behind the write to cgroup.procs the child is confined, and the exec is judged. */
static enum step become_command(const struct rf_run *run, const struct rf_run_identity *identity)
{
	/* Other descriptors go at the exec, the session's own door with them. */
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return STEP_STDIO;
	if (!become(identity))
		return STEP_USER;
	if (!run->setid && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return STEP_PRIVS;
	if (write(run->cgroup_procs, "0", 1) != 1)
		return STEP_ENTER;
	execvp(run->argv[0], run->argv);
	return STEP_EXEC;
}

/* ---- the parent -------------------------------------------------------- */

struct signals {
	sigset_t old_mask;
	struct sigaction old_chld;
	int fd;
};

static const int passed_on[] = {
	SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP,
};

static void signals_restore(struct signals *s)
{
	if (s->fd < 0)
		return;
	close(s->fd);
	s->fd = -1;
	sigaction(SIGCHLD, &s->old_chld, NULL);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}
#define _cleanup_signals_ __attribute__((cleanup(signals_restore)))

static int signals_take(struct signals *s)
{
	/* A caller that ignores SIGCHLD would have the status thrown away. */
	const struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < RF_COUNT(passed_on); i++)
		sigaddset(&mask, passed_on[i]);
	sigaddset(&mask, SIGCHLD);
	/* The terminal stops both; we stop when the command has. */
	sigaddset(&mask, SIGTTIN);
	sigaddset(&mask, SIGTTOU);
	s->fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0)
		return -errno;
	sigaction(SIGCHLD, &dfl, &s->old_chld);
	sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
	return 0;
}

/*
 * SI_KERNEL: from the terminal, so that the command had it too. But a hangup
 * comes to the leader of the terminal's session alone, which may be us, and with the
 * SIGCONT behind it to one process group, which the command may have left.
 */
static void pass_on(const struct signalfd_siginfo *info, pid_t child)
{
	int signo = (int)info->ssi_signo;

	if (signo == SIGCHLD || signo == SIGTTIN || signo == SIGTTOU)
		return;
	if (info->ssi_code == SI_KERNEL && signo != SIGHUP && signo != SIGCONT)
		return;
	if ((pid_t)info->ssi_pid == child) /* kill(0, ...) of the command: it has had it */
		return;
	kill(child, signo);
}

/*
 * Stop as the command did, until a shell continues the job; its SIGCONT is passed on. Where
 * no shell could (an orphaned process group) SIGTSTP does nothing: whoever stopped the
 * command will continue it, and would leave us stopped.
 */
static void stop(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &mask, NULL);
	sigprocmask(SIG_BLOCK, &mask, NULL);
}

/* True when the child has ended. Follows it when it stops. */
static bool reap(pid_t child, int *ret_status)
{
	siginfo_t info = {0};

	while (waitid(P_PID, (id_t)child, &info, WEXITED | WSTOPPED | WNOHANG) == 0 &&
	       info.si_pid == child) {
		if (info.si_code == CLD_STOPPED) {
			stop();
		} else if (info.si_code == CLD_EXITED) {
			*ret_status = info.si_status;
			return true;
		} else {
			*ret_status = 128 + info.si_status;
			return true;
		}
		info = (siginfo_t){0};
	}
	return false;
}

static int wait_for(const struct rf_run *run, const struct signals *s, pid_t child)
{
	struct pollfd fds[] = {
		{.fd = s->fd, .events = POLLIN},
		{.fd = run->watch_fd, .events = POLLIN},
	};
	struct signalfd_siginfo info;
	int status;

	while (!reap(child, &status)) {
		if (poll(fds, RF_COUNT(fds), -1) < 0)
			continue;
		while (read(s->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
			pass_on(&info, child);
		/* A descriptor below 0 is one that poll passes over. */
		if (fds[1].revents && !run->readable(run->userdata))
			fds[1].fd = -1;
	}
	/* What came too late to be passed on was meant for the command: it is not to end us. */
	while (read(s->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		continue;
	return status;
}

static int explain(const struct failure *failure, const struct rf_run *run, struct rf_diags *diags)
{
	int error = failure->error;

	if (failure->step != STEP_EXEC) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "%s: %s", step_text[failure->step],
			strerror(error));
		return -error;
	}
	rf_diag(diags, RF_ERROR, NULL, 0, 0,
		error == EACCES ? "either its mode or the policy forbids it; the events tell"
				: NULL,
		"cannot execute \"%s\": %s", run->argv[0], strerror(error));
	return 0;
}

int rf_run(const struct rf_run *run, const struct rf_run_identity *identity, struct rf_diags *diags,
	   int *ret_status)
{
	_cleanup_signals_ struct signals s = {.fd = -1};
	struct failure failure;
	int report[2] = {-1, -1}, status, r;
	ssize_t n;
	pid_t child;

	r = signals_take(&s);
	if (r == 0 && pipe2(report, O_CLOEXEC) < 0)
		r = -errno;
	if (r < 0) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot start a process: %s",
			strerror(-r));
		return r;
	}

	child = fork();
	if (child == 0) {
		if (run->sigpipe)
			sigaction(SIGPIPE, run->sigpipe, NULL);
		signals_restore(&s);
		failure.step = become_command(run, identity);
		failure.error = errno;
		n = write(report[1], &failure, sizeof(failure));
		_exit(n == (ssize_t)sizeof(failure) ? 127 : 126);
	}
	r = child < 0 ? -errno : 0;
	close(report[1]);
	if (r < 0) {
		close(report[0]);
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot start a process: %s",
			strerror(-r));
		return r;
	}

	/*
	 * The exec closed the other side, so this never waits; read before, it would
	 * not notice that the child was stopped meanwhile.
	 */
	status = wait_for(run, &s, child);
	n = read(report[0], &failure, sizeof(failure));
	close(report[0]);
	if (n == (ssize_t)sizeof(failure)) {
		r = explain(&failure, run, diags);
		if (r < 0)
			return r;
		status = failure.error == ENOENT ? 127 : 126;
	}
	*ret_status = status;
	return 0;
}
