/* SPDX-License-Identifier: BSD-2-Clause */
/* The cgroups of sessions, see cgroup.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bpf/abi.h"
#include "policy/util.h"
#include "user/cgroup.h"
#include "user/cleanup.h"
#include "user/text.h"

#define FOLDER "ringfence"
/* Levels that a session may make below its own cgroup. */
#define DEPTH_BELOW 64

/* ---- the hierarchy ----------------------------------------------------- */

static unsigned int levels(const char *path)
{
	unsigned int n = 0;

	for (; *path; path++)
		n += path[0] == '/' && path[1] != '/' && path[1] != 0;
	return n;
}

/*
 * The mountpoint of a line if it is a cgroup v2 mount, else NULL; *ret_level is the
 * level of the cgroup that is mounted there.
 */
static const char *cgroup2_mount(char *line, unsigned int *ret_level)
{
	char *field[5], *save = NULL, *type;

	for (size_t i = 0; i < RF_COUNT(field); i++) {
		field[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!field[i])
			return NULL;
	}
	/* Optional fields end with a dash. */
	do
		type = strtok_r(NULL, " ", &save);
	while (type && strcmp(type, "-") != 0);
	type = strtok_r(NULL, " ", &save);
	if (!type || strcmp(type, "cgroup2") != 0)
		return NULL;
	rf_unescape_octal(field[3]);
	rf_unescape_octal(field[4]);
	*ret_level = levels(field[3]);
	return field[4];
}

char *rf_cgroup_mount(const char *mountinfo)
{
	FILE *file = fopen(mountinfo, "re");
	_cleanup_free_ char *line = NULL;
	const char *mount = NULL;
	unsigned int level;
	size_t room = 0;

	while (file && !mount && getline(&line, &room, file) > 0)
		mount = cgroup2_mount(line, &level);
	if (file)
		fclose(file);
	return mount ? strdup(mount) : NULL;
}

int rf_cgroup_root(const char *mountinfo, struct rf_diags *diags, char **ret_root)
{
	FILE *file = fopen(mountinfo, "re");
	_cleanup_free_ char *line = NULL;
	_cleanup_free_ char *seen = NULL;
	char *root = NULL;
	size_t room = 0;
	int err = -EOPNOTSUPP, why = 0;

	if (!file) {
		err = -errno;
		rf_diag(diags, RF_ERROR, mountinfo, 0, 0, "is /proc mounted?", "%s",
			strerror(-err));
		return err;
	}
	while (getline(&line, &room, file) > 0) {
		unsigned int level;
		const char *mount = cgroup2_mount(line, &level);

		if (!mount)
			continue;
		free(root);
		root = NULL;
		if (asprintf(&root, "%s/%s", mount, FOLDER) < 0) {
			root = NULL;
			err = -ENOMEM;
			break;
		}
		if (level + 2 >= RF_MAX_CGROUP_DEPTH)
			why = ELOOP;
		else if (!mkdir(root, 0755) || errno == EEXIST)
			why = access(root, W_OK) ? errno : 0;
		else
			why = errno;
		if (!why) {
			err = 0;
			break;
		}
		free(seen);
		seen = strdup(mount);
	}
	fclose(file);
	if (!err) {
		*ret_root = root;
		return 0;
	}
	free(root);
	if (err == -ENOMEM)
		return err;
	if (seen)
		rf_diag(diags, RF_ERROR, seen, 0, 0,
			"mount it writable: mount -o remount,rw -t cgroup2 none PLACE",
			"the cgroup v2 hierarchy cannot be used: %s", strerror(why));
	else
		rf_diag(diags, RF_ERROR, NULL, 0, 0,
			"mount it: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none "
			"/sys/fs/cgroup/unified",
			"there is no cgroup v2 hierarchy, in which sessions live");
	return err;
}

/* ---- one cgroup -------------------------------------------------------- */

/* The id that the kernel's bpf_get_current_cgroup_id() gives. */
static int id_of(int dir, uint64_t *ret_id)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + sizeof(uint64_t)];
	} u = {.handle.handle_bytes = sizeof(uint64_t)};
	int mount;

	if (name_to_handle_at(dir, "", &u.handle, &mount, AT_EMPTY_PATH))
		return -errno;
	if (u.handle.handle_bytes != sizeof(uint64_t))
		return -EPROTO;
	memcpy(ret_id, u.handle.f_handle, sizeof(uint64_t));
	return 0;
}

void rf_cgroup_done(struct rf_session_cgroup *cgroup)
{
	rf_closep(&cgroup->fd);
	rf_closep(&cgroup->events);
	free(cgroup->path);
	*cgroup = RF_SESSION_CGROUP_NONE;
}

static int open_dir(const char *path, struct rf_session_cgroup *ret_cgroup)
{
	struct rf_session_cgroup cgroup = RF_SESSION_CGROUP_NONE;
	int err;

	cgroup.path = strdup(path);
	if (!cgroup.path)
		return -ENOMEM;
	cgroup.fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (cgroup.fd < 0) {
		err = -errno;
		goto fail;
	}
	err = id_of(cgroup.fd, &cgroup.id);
	if (err)
		goto fail;
	cgroup.events = openat(cgroup.fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (cgroup.events < 0) {
		err = -errno;
		goto fail;
	}
	*ret_cgroup = cgroup;
	return 0;
fail:
	rf_cgroup_done(&cgroup);
	return err;
}

static int write_file(int dir, const char *name, const char *text)
{
	/* Without waiting, where the kernel can: for memory to be reclaimed, below a new limit. */
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

int rf_cgroup_create(const char *root, const char *name, struct rf_diags *diags,
		     struct rf_session_cgroup *ret_cgroup)
{
	_cleanup_free_ char *path = NULL;
	char depth[16];
	int err = 0;

	if (asprintf(&path, "%s/%s", root, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (mkdir(path, 0755)) {
		err = -errno;
		if (err == -EEXIST)
			return err;
	} else {
		err = open_dir(path, ret_cgroup);
		if (!err) {
			/* Bounds what a removal has to walk. */
			snprintf(depth, sizeof(depth), "%d", DEPTH_BELOW);
			err = write_file(ret_cgroup->fd, "cgroup.max.depth", depth);
			if (err)
				rf_cgroup_done(ret_cgroup);
		}
		if (err)
			rmdir(path);
	}
	if (err)
		rf_diag(diags, RF_ERROR, path, 0, 0, NULL, "cannot make the session's cgroup: %s",
			strerror(-err));
	return err;
}

int rf_cgroup_open(const char *path, uint64_t id, struct rf_session_cgroup *ret_cgroup)
{
	struct rf_session_cgroup cgroup = RF_SESSION_CGROUP_NONE;
	int err = open_dir(path, &cgroup);

	if (err)
		return err;
	if (cgroup.id != id) {
		rf_cgroup_done(&cgroup);
		return -ESTALE;
	}
	*ret_cgroup = cgroup;
	return 0;
}

int rf_cgroup_procs(const struct rf_session_cgroup *cgroup)
{
	int fd = openat(cgroup->fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int rf_cgroup_populated(const struct rf_session_cgroup *cgroup)
{
	char text[256];
	ssize_t n = pread(cgroup->events, text, sizeof(text) - 1, 0);
	const char *at;

	if (n < 0)
		return errno == ENODEV ? 0 : -errno; /* ENODEV: it was removed */
	text[n] = 0;
	at = strstr(text, "populated ");
	return at && at[strlen("populated ")] == '0' ? 0 : 1;
}

/* ---- limits ------------------------------------------------------------ */

#define CPU_PERIOD 100000u /* microseconds */

/* Is the controller in the list that cgroup.controllers of `dir` is? -errno: no cgroup. */
static int lists(int dir, const char *controller)
{
	_cleanup_fd_ int fd = openat(dir, "cgroup.controllers", O_RDONLY | O_CLOEXEC);
	char text[1024], *save = NULL;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	text[n] = 0;
	for (char *word = strtok_r(text, " \n", &save); word; word = strtok_r(NULL, " \n", &save))
		if (!strcmp(word, controller))
			return 1;
	return 0;
}

/* Does `dir` have the controller, or a cgroup above, from which it can be handed down? */
static bool reaches(int dir, const char *controller)
{
	_cleanup_fd_ int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	int has = 0;

	for (int i = 0; i < RF_MAX_CGROUP_DEPTH && !(has = lists(at, controller)); i++) {
		int above = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		rf_closep(&at);
		at = above;
	}
	return has == 1;
}

/* Hand the controller, which reaches() has found, down to the children of `dir`. */
static int enable(int dir, const char *controller, int depth)
{
	char word[32];

	if (depth == RF_MAX_CGROUP_DEPTH)
		return -ELOOP;
	if (lists(dir, controller) != 1) {
		_cleanup_fd_ int above = openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int err = above < 0 ? -errno : enable(above, controller, depth + 1);

		if (err)
			return err;
	}
	snprintf(word, sizeof(word), "+%s", controller);
	return write_file(dir, "cgroup.subtree_control", word);
}

bool rf_cgroup_has_controller(const char *root, const char *controller)
{
	_cleanup_fd_ int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir >= 0 && reaches(dir, controller);
}

/* One limit: `value` goes into a file of the controller. */
struct limit {
	const char *name, *controller, *file;
	char value[48]; /* "max": none */
	const struct rf_position *at;
};

static bool limits_something(const struct limit *limit)
{
	return strcmp(limit->value, "max") != 0;
}

static int set(int root, const struct rf_session_cgroup *cgroup, const struct limit *limit,
	       struct rf_diags *diags)
{
	int err = 0;

	if (faccessat(cgroup->fd, limit->file, F_OK, 0)) {
		if (!limits_something(limit))
			return 0;
		if (!reaches(root, limit->controller)) {
			rf_diag(diags, RF_ERROR, limit->at->file, limit->at->line,
				limit->at->column,
				"boot with it in the v2 hierarchy "
				"(systemd.unified_cgroup_hierarchy=1), or take the limit out",
				"the limit `%s` cannot be enforced: the cgroup v2 hierarchy does not "
				"have the controller \"%s\"",
				limit->name, limit->controller);
			return -EOPNOTSUPP;
		}
		err = enable(root, limit->controller, 0);
	}
	if (!err)
		err = write_file(cgroup->fd, limit->file, limit->value);
	if (!err && !strcmp(limit->file, "memory.max")) {
		err = write_file(cgroup->fd, "memory.swap.max",
				 limits_something(limit) ? "0" : "max");
		if (err == -ENOENT) /* a kernel without swap */
			err = 0;
	}
	if (err)
		rf_diag(diags, RF_ERROR, limit->at->file, limit->at->line, limit->at->column, NULL,
			"cannot set the limit `%s` by the cgroup controller \"%s\": %s",
			limit->name, limit->controller, strerror(-err));
	return err;
}

int rf_cgroup_limit(const char *root, const struct rf_session_cgroup *cgroup,
		    const struct rf_limits *limits, struct rf_diags *diags)
{
	_cleanup_fd_ int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct limit all[] = {
		{"memory", "memory", "memory.max", "max", &limits->memory_at},
		{"tasks", "pids", "pids.max", "max", &limits->tasks_at},
		{"cpu", "cpu", "cpu.max", "max", &limits->cpu_at},
	};
	int err;

	if (dir < 0)
		return -errno;
	if (limits->memory)
		snprintf(all[0].value, sizeof(all[0].value), "%" PRIu64, limits->memory);
	if (limits->tasks)
		snprintf(all[1].value, sizeof(all[1].value), "%" PRIu32, limits->tasks);
	if (limits->cpu)
		snprintf(all[2].value, sizeof(all[2].value), "%" PRIu64 " %u",
			 (uint64_t)limits->cpu * (CPU_PERIOD / 1000), CPU_PERIOD);
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		err = set(dir, cgroup, &all[i], diags);
		if (err)
			return err;
	}
	return 0;
}

/* A counter in a file of lines "NAME NUMBER"; 0 if it is not there. */
static uint64_t counter(int dir, const char *file, const char *name)
{
	_cleanup_fd_ int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	char text[512], *save = NULL;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	size_t length = strlen(name);

	if (n < 0)
		return 0;
	text[n] = 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!strncmp(line, name, length) && line[length] == ' ')
			return strtoull(line + length + 1, NULL, 10);
	return 0;
}

struct rf_limit_hits rf_cgroup_hits(const struct rf_session_cgroup *cgroup)
{
	/* A machine without memory kills, too, but not for the limit. */
	bool full = counter(cgroup->fd, "memory.events", "oom");

	return (struct rf_limit_hits){
		.killed = full ? counter(cgroup->fd, "memory.events", "oom_kill") : 0,
		.refused = counter(cgroup->fd, "pids.events", "max"),
	};
}

/* ---- the tree ---------------------------------------------------------- */

/* Call `visit` for each cgroup of the tree, those below first; the first error ends it. */
static int walk(int dir, unsigned int depth,
		int (*visit)(void *userdata, int parent, const char *name, int dir), void *userdata)
{
	_cleanup_dir_ DIR *stream = NULL;
	struct dirent *entry;
	int fd, err;

	if (depth > DEPTH_BELOW)
		return -ELOOP;
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	stream = fdopendir(fd);
	if (!stream) {
		err = -errno;
		close(fd);
		return err;
	}
	while ((entry = readdir(stream))) {
		_cleanup_fd_ int child = -1;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		child = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child < 0) {
			if (errno == ENOENT)
				continue; /* removed meanwhile */
			return -errno;
		}
		err = walk(child, depth + 1, visit, userdata);
		if (!err)
			err = visit(userdata, fd, entry->d_name, child);
		if (err)
			return err;
	}
	return 0;
}

static int each_pid(int dir, void (*pid)(void *userdata, pid_t pid), void *userdata)
{
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	int value;

	if (!file) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while (fscanf(file, "%d", &value) == 1)
		pid(userdata, value);
	fclose(file);
	return 0;
}

static void count_one(void *userdata, pid_t pid)
{
	size_t *n = userdata;

	(void)pid;
	++*n;
}

static int count_dir(void *userdata, int parent, const char *name, int dir)
{
	(void)parent;
	(void)name;
	/* A threaded child has no list of processes: they are in its domain's. */
	each_pid(dir, count_one, userdata);
	return 0;
}

size_t rf_cgroup_count(const struct rf_session_cgroup *cgroup)
{
	size_t n = 0;

	each_pid(cgroup->fd, count_one, &n);
	walk(cgroup->fd, 0, count_dir, &n);
	return n;
}

static void kill_one(void *userdata, pid_t pid)
{
	(void)userdata;
	if (pid > 0)
		kill(pid, SIGKILL);
}

static int kill_dir(void *userdata, int parent, const char *name, int dir)
{
	(void)parent;
	(void)name;
	each_pid(dir, kill_one, userdata);
	return 0;
}

int rf_cgroup_kill(const struct rf_session_cgroup *cgroup)
{
	int err = write_file(cgroup->fd, "cgroup.kill", "1");

	if (err != -ENOENT)
		return err == -ENODEV ? 0 : err;
	/* Not a kernel's file but a fork may escape one round: the caller calls again. */
	kill_dir(NULL, -1, NULL, cgroup->fd);
	return walk(cgroup->fd, 0, kill_dir, NULL);
}

static int remove_dir(void *userdata, int parent, const char *name, int dir)
{
	(void)userdata;
	(void)dir;
	return unlinkat(parent, name, AT_REMOVEDIR) && errno != ENOENT ? -errno : 0;
}

int rf_cgroup_remove(const struct rf_session_cgroup *cgroup)
{
	/* Tasks anywhere in the tree: leave all of it. */
	int err = rf_cgroup_populated(cgroup) == 1 ? -EBUSY : 0;

	if (!err)
		err = walk(cgroup->fd, 0, remove_dir, NULL);
	if (!err && rmdir(cgroup->path) && errno != ENOENT)
		err = -errno;
	return err;
}

void rf_cgroup_sweep(const char *root)
{
	_cleanup_dir_ DIR *dir = opendir(root);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
}
