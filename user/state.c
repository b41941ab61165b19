/* SPDX-License-Identifier: BSD-2-Clause */
/* The state files of sessions, see state.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/limits.h"
#include "user/state.h"
#include "user/text.h"

#define STATE_VERSION 2
#define STATE "json" /* suffixes of the files */
#define NEXT "next"
#define IMAGES "images"
#define STATE_MAX (256u << 20) /* bytes of a file that are read at all */

void rf_session_state_done(struct rf_session_state *state)
{
	free(state->name);
	free(state->policy);
	free(state->policy_file);
	free(state->cgroup);
	free(state->log);
	free(state->started);
	free(state->user);
	free(state->cwd);
	free(state->workspace);
	free(state->home);
	json_decref(state->command);
	for (size_t i = 0; i < state->n_anchors; i++)
		free(state->anchors[i].path);
	free(state->anchors);
	*state = (struct rf_session_state){0};
}

/* ---- names of anchors -------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
	const struct rf_anchor_name *a = left, *b = right;
	int c = memcmp(&a->key, &b->key, sizeof(a->key));

	return c ? c : a->name < b->name ? -1 : a->name > b->name;
}

/* qsort() is not stable: the position in the array decides between equals. */
struct ordered {
	struct rf_anchor_name item;
	size_t order;
};

static int compare_ordered(const void *left, const void *right)
{
	const struct ordered *a = left, *b = right;
	int c = compare_names(&a->item, &b->item);

	return c ? c : a->order < b->order ? -1 : a->order > b->order;
}

void rf_anchor_names_sort(struct rf_anchor_name *names, size_t *n)
{
	_cleanup_free_ struct ordered *all = calloc(*n + 1, sizeof(*all));
	size_t kept = 0;

	if (!all) {
		/* Any of the names is a true one. */
		qsort(names, *n, sizeof(*names), compare_names);
		return;
	}
	for (size_t i = 0; i < *n; i++)
		all[i] = (struct ordered){names[i], i};
	qsort(all, *n, sizeof(*all), compare_ordered);
	for (size_t i = 0; i < *n; i++) {
		if (kept && !compare_names(&names[kept - 1], &all[i].item))
			free(all[i].item.path);
		else
			names[kept++] = all[i].item;
	}
	*n = kept;
}

const char *rf_anchor_names_find(const struct rf_anchor_name *names, size_t n,
				 const struct rf_anchor_key *key, uint32_t name)
{
	struct rf_anchor_name wanted = {.key = *key, .name = name};
	const struct rf_anchor_name *found =
		n ? bsearch(&wanted, names, n, sizeof(*names), compare_names) : NULL;

	return found ? found->path : NULL;
}

/* ---- writing ----------------------------------------------------------- */

/* Numbers of 64 bits pass through JSON's signed ones and back unchanged. */
static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *anchors_json(const struct rf_session_state *state)
{
	json_t *array = json_array();

	for (size_t i = 0; i < state->n_anchors; i++) {
		const struct rf_anchor_name *a = &state->anchors[i];
		_cleanup_free_ char *path = rf_escape(a->path, strlen(a->path));
		json_t *item = json_array();

		json_array_append_new(item, number(a->key.ino));
		json_array_append_new(item, number(a->key.subvol));
		json_array_append_new(item, number(a->key.super));
		json_array_append_new(item, number(a->key.generation));
		json_array_append_new(item, number(a->name));
		if (!path || json_array_append_new(item, json_string(path)) ||
		    json_array_append(array, item)) {
			json_decref(item);
			json_decref(array);
			return NULL;
		}
		json_decref(item);
	}
	return array;
}

static json_t *state_json(const struct rf_session_state *state)
{
	return json_pack("{s:i, s:o, s:s, s:o, s:o, s:o, s:i, s:i, s:s, s:s*, s:s, s:s, s:s,"
			 " s:s*, s:s*, s:s*, s:s*, s:O, s:I, s:I, s:o, s:o, s:[o,o], s:o, s:o}",
			 "version", STATE_VERSION, "id", number(state->kernel.id), "name",
			 state->name, "word", number(state->kernel.word), "cgroup_id",
			 number(state->kernel.cgroup), "slot", number(state->kernel.slot), "class",
			 (int)state->image.class, "image", (int)state->image.slot, "policy",
			 state->policy, "policy_file", state->policy_file, "cgroup", state->cgroup,
			 "log", state->log, "started", state->started, "user", state->user, "cwd",
			 state->cwd, "workspace", state->workspace, "home", state->home, "command",
			 state->command, "uid", (json_int_t)state->uid, "pid",
			 (json_int_t)state->pid, "pid_start", number(state->pid_start), "seq",
			 number(state->seq), "lost", number(state->lost[RF_LOSS_RATE]),
			 number(state->lost[RF_LOSS_RING]), "limits",
			 rf_limits_json(&state->limits, false), "anchors", anchors_json(state));
}

struct file_name {
	char text[32];
};

static struct file_name file_name(uint64_t id, const char *suffix)
{
	struct file_name name;

	snprintf(name.text, sizeof(name.text), "%" PRIu64 ".%s", id, suffix);
	return name;
}

static int save(int dir, const struct rf_session_state *state, const char *file)
{
	_cleanup_json_ json_t *json = state_json(state);
	char draft[40];
	int fd, err = 0;

	if (!json)
		return -ENOMEM;
	snprintf(draft, sizeof(draft), "%s.new", file);
	fd = openat(dir, draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	errno = 0;
	if (json_dumpfd(json, fd, JSON_COMPACT))
		err = errno ? -errno : -EIO;
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir, draft, dir, file))
		err = -errno;
	if (err)
		unlinkat(dir, draft, 0);
	return err;
}

int rf_session_state_save(int dir, const struct rf_session_state *state)
{
	return save(dir, state, file_name(state->kernel.id, STATE).text);
}

int rf_session_state_save_next(int dir, const struct rf_session_state *state)
{
	return save(dir, state, file_name(state->kernel.id, NEXT).text);
}

int rf_session_state_commit_next(int dir, uint64_t id)
{
	return renameat(dir, file_name(id, NEXT).text, dir, file_name(id, STATE).text) ? -errno : 0;
}

static int remove_file(int dir, const char *file)
{
	return unlinkat(dir, file, 0) && errno != ENOENT ? -errno : 0;
}

int rf_session_state_remove_next(int dir, uint64_t id)
{
	return remove_file(dir, file_name(id, NEXT).text);
}

int rf_session_state_remove(int dir, uint64_t id)
{
	int next = rf_session_state_remove_next(dir, id);
	int images = remove_file(dir, file_name(id, IMAGES).text);
	int err = remove_file(dir, file_name(id, STATE).text);

	return err ? err : next ? next : images;
}

/* ---- images of earlier policies ---------------------------------------- */

/* The bytes of the image at the start of these; 0 if there is not a whole one. */
static size_t image_size(const void *bytes, size_t size)
{
	const struct rf_image *head = bytes;

	if (size < sizeof(*head) || head->size < sizeof(*head) || head->size > size)
		return 0;
	return head->size;
}

int rf_session_images_load(int dir, uint64_t id, void **ret_images, size_t *ret_size)
{
	_cleanup_free_ char *images = NULL;
	_cleanup_fd_ int fd = -1;
	size_t at = 0, n;
	struct stat st;

	fd = openat(dir, file_name(id, IMAGES).text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		*ret_images = NULL;
		*ret_size = 0;
		return 0;
	}
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (st.st_size > STATE_MAX)
		return -EFBIG;
	images = malloc((size_t)st.st_size + 1);
	if (!images)
		return -ENOMEM;
	while (at < (size_t)st.st_size) {
		ssize_t got = pread(fd, images + at, (size_t)st.st_size - at, (off_t)at);

		if (got <= 0)
			return got ? -errno : -EIO;
		at += (size_t)got;
	}
	/* The last one is cut where the daemon was killed: then it is in force still. */
	for (at = 0; (n = image_size(images + at, (size_t)st.st_size - at)); at += n)
		;
	*ret_images = rf_steal(&images);
	*ret_size = at;
	return 0;
}

int rf_session_images_add(int dir, uint64_t id, const void *image)
{
	const size_t size = ((const struct rf_image *)image)->size;
	_cleanup_free_ char *known = NULL;
	_cleanup_fd_ int fd = -1;
	void *images = NULL;
	size_t end = 0, at, n;
	int err = rf_session_images_load(dir, id, &images, &end);

	if (err)
		return err;
	known = images;
	for (at = 0; at < end; at += n) {
		n = image_size(known + at, end - at);
		if (n == size && memcmp(known + at, image, n) == 0)
			return 0;
	}
	if (end + size > STATE_MAX)
		return -EFBIG;
	fd = openat(dir, file_name(id, IMAGES).text, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0 || ftruncate(fd, (off_t)end))
		return -errno;
	for (at = 0; at < size; at += n) {
		ssize_t put = pwrite(fd, (const char *)image + at, size - at, (off_t)(end + at));

		if (put < 0)
			return -errno;
		n = (size_t)put;
	}
	return 0;
}

/* ---- reading ----------------------------------------------------------- */

static int copy(const char *from, char **to)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : -ENOMEM;
}

static int load_anchors(const json_t *array, struct rf_session_state *state)
{
	size_t n = json_array_size(array), i;
	const json_t *item;

	if (!json_is_array(array))
		return -EBADMSG;
	state->anchors = calloc(n + 1, sizeof(*state->anchors));
	if (!state->anchors)
		return -ENOMEM;
	json_array_foreach (array, i, item) {
		struct rf_anchor_name *a = &state->anchors[i];
		json_int_t ino, subvol, super, generation, name;
		const char *path;
		int err;

		if (json_unpack((json_t *)item, "[I,I,I,I,I,s!]", &ino, &subvol, &super,
				&generation, &name, &path))
			return -EBADMSG;
		a->key = (struct rf_anchor_key){
			.policy = RF_WORD_POLICY(state->kernel.word),
			.ino = (uint64_t)ino,
			.subvol = (uint64_t)subvol,
			.super = (uint32_t)super,
			.generation = (uint32_t)generation,
		};
		a->name = (uint32_t)name;
		err = rf_unescape(path, &a->path, NULL);
		if (err)
			return err == -EINVAL ? -EBADMSG : err;
		state->n_anchors = i + 1;
	}
	rf_anchor_names_sort(state->anchors, &state->n_anchors);
	return 0;
}

static int load_json(json_t *json, struct rf_session_state *state)
{
	const char *name, *policy, *policy_file = NULL, *cgroup, *log, *started, *user = NULL,
				   *cwd = NULL, *workspace = NULL, *home = NULL;
	json_int_t id, word, cgroup_id, slot, class, image, uid, pid, pid_start, seq, rate, ring;
	json_t *command, *anchors, *limits = NULL;
	int version, err;

	if (json_unpack(json,
			"{s:i, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s?s, s:s, s:s, s:s, s?s,"
			" s?s, s?s, s?s, s:o, s:I, s:I, s:I, s:I, s:[I,I!], s?o, s:o}",
			"version", &version, "id", &id, "name", &name, "word", &word, "cgroup_id",
			&cgroup_id, "slot", &slot, "class", &class, "image", &image, "policy",
			&policy, "policy_file", &policy_file, "cgroup", &cgroup, "log", &log,
			"started", &started, "user", &user, "cwd", &cwd, "workspace", &workspace,
			"home", &home, "command", &command, "uid", &uid, "pid", &pid, "pid_start",
			&pid_start, "seq", &seq, "lost", &rate, &ring, "limits", &limits, "anchors",
			&anchors))
		return -EBADMSG;
	if (version != STATE_VERSION || !id || slot < 0 || slot >= RF_MAX_SESSIONS || class < 0 ||
	    class >= RF_CLASSES || image < 0 || image >= RF_IMAGES_PER_CLASS ||
	    RF_WORD_CLASS((uint64_t)word) != (uint64_t) class ||
	    RF_WORD_SLOT((uint64_t)word) != (uint64_t)image || !RF_WORD_POLICY((uint64_t)word) ||
	    !json_is_array(command) || strchr(name, '/') || rf_limits_take(limits, &state->limits))
		return -EBADMSG;
	state->kernel = (struct rf_kernel_session){
		.id = (uint64_t)id,
		.word = (uint64_t)word,
		.cgroup = (uint64_t)cgroup_id,
		.slot = (uint32_t)slot,
	};
	state->image = (struct rf_image_ref){.class = (uint32_t) class, .slot = (uint32_t)image};
	state->uid = (uid_t)uid;
	state->pid = (pid_t)pid;
	state->pid_start = (uint64_t)pid_start;
	state->seq = (uint64_t)seq;
	state->lost[RF_LOSS_RATE] = (uint64_t)rate;
	state->lost[RF_LOSS_RING] = (uint64_t)ring;
	state->command = json_incref(command);
	err = copy(name, &state->name) ?: copy(policy, &state->policy)
	      ?: copy(policy_file, &state->policy_file) ?: copy(cgroup, &state->cgroup)
	      ?: copy(log, &state->log) ?: copy(started, &state->started)
	      ?: copy(user, &state->user) ?: copy(cwd, &state->cwd)
	      ?: copy(workspace, &state->workspace) ?: copy(home, &state->home);
	state->limits = rf_limits_values(&state->limits);
	return err ? err : load_anchors(anchors, state);
}

static int load(int dir, const char *file, const char *suffix, struct rf_session_state *ret_state)
{
	struct rf_session_state state = {0};
	_cleanup_fd_ int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_json_ json_t *json = NULL;
	struct stat st;
	int err;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > STATE_MAX)
		return -EBADMSG;
	json = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
	err = json ? load_json(json, &state) : -EBADMSG;
	if (!err && strcmp(file_name(state.kernel.id, suffix).text, file) != 0)
		err = -EBADMSG;
	if (err) {
		rf_session_state_done(&state);
		return err;
	}
	*ret_state = state;
	return 0;
}

int rf_session_state_load(int dir, const char *file, struct rf_session_state *ret_state)
{
	return load(dir, file, STATE, ret_state);
}

int rf_session_state_load_next(int dir, uint64_t id, struct rf_session_state *ret_state)
{
	return load(dir, file_name(id, NEXT).text, NEXT, ret_state);
}

/* ---- processes --------------------------------------------------------- */

uint64_t rf_pid_start(pid_t pid)
{
	_cleanup_fd_ int fd = -1;
	char path[32], text[1024];
	uint64_t start;
	char *at;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* The second field is the name in brackets, which may hold anything. */
	at = strrchr(text, ')');
	for (int field = 3; at && field <= 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return 0;
	errno = 0;
	start = strtoull(at, NULL, 10);
	return errno ? 0 : start;
}
