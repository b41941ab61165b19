/* SPDX-License-Identifier: BSD-2-Clause */
/* Look-up of policies by name; see user/find.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/find.h"

#define PROJECT 0 /* the place that is not the user's own */

/* Cut the last name off a path. False if there is none. */
static bool parent(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return false;
	*slash = 0;
	return true;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

/*
 * The shipped profiles, so that a program never runs with those of another version:
 * those that were installed together with it; the tree's for one that was built in
 * it (in .output or a variant's folder below); else where they were to be installed.
 */
static char *profiles(void)
{
	_cleanup_free_ char *exe = realpath("/proc/self/exe", NULL), *beside = NULL;
	char *folder;

	if (!exe || !parent(exe))
		return strdup(RF_PROFILE_DIR);
	if (asprintf(&beside, "%s/../share/ringfence/profiles", exe) < 0) {
		beside = NULL;
		return NULL;
	}
	folder = realpath(beside, NULL);
	if (folder)
		return folder;
	if (!ends_with(exe, "/.output"))
		parent(exe);
	if (ends_with(exe, "/.output") && parent(exe))
		return asprintf(&folder, "%s/policy/profiles", exe) < 0 ? NULL : folder;
	return strdup(RF_PROFILE_DIR);
}

/* The i-th folder, malloc'ed; *ret_folder is NULL for one that does not apply. -ERANGE behind the last. */
static int place(int i, const char *home, char **ret_folder)
{
	char *folder = NULL;

	switch (i) {
	case PROJECT:
		folder = strdup(".ringfence");
		break;
	case 1:
		if (!home) {
			*ret_folder = NULL;
			return 0;
		}
		if (asprintf(&folder, "%s/.config/ringfence", home) < 0)
			folder = NULL;
		break;
	case 2:
		folder = strdup("/etc/ringfence");
		break;
	case 3:
		folder = profiles();
		break;
	default:
		return -ERANGE;
	}
	if (!folder)
		return -ENOMEM;
	*ret_folder = folder;
	return 0;
}

static int read_file(const char *path, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0, capacity = 0;
	ssize_t n;
	int fd, r = 0;

	/* A pipe that nobody writes to is empty, not waited for; from one with a writer it is read. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_SETFL, 0) < 0)
		r = -errno;
	while (r == 0) {
		if (size >= RF_POLICY_FILE_MAX)
			r = -EFBIG;
		else
			r = rf_grow(&text, &capacity, size + 4096, 1);
		if (r < 0)
			break;
		n = read(fd, text + size, capacity - size - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			break;
		if (n < 0)
			r = -errno;
		else
			size += (size_t)n;
	}
	close(fd);
	if (r || !text)
		return r ? r : -ENOMEM;
	text[size] = 0;
	*ret_text = rf_steal(&text);
	*ret_size = size;
	return 0;
}

/*
 * The file that a name means. The project's folder is anybody's who wrote the
 * project: it may add names, but not give another meaning to one that the user, the
 * machine or ringfence has.
 */
static int locate(const char *name, const char *home, char **ret_path)
{
	_cleanup_free_ char *found = NULL;
	int r;

	for (int i = 0;; i++) {
		_cleanup_free_ char *folder = NULL, *path = NULL;

		r = place(i, home, &folder);
		if (r == -ERANGE)
			break;
		if (r < 0)
			return r;
		if (!folder)
			continue;
		if (asprintf(&path, "%s/%s.yaml", folder, name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
		/* One that is there but cannot be read is no reason to use another. */
		if (access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
			continue;
		if (found)
			return -EEXIST;
		found = rf_steal(&path);
		if (i != PROJECT)
			break;
	}
	if (!found)
		return -ENOENT;
	*ret_path = rf_steal(&found);
	return 0;
}

int rf_find_policy(const char *name, const char *from, const char *home, char **ret_file,
		   char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (!*name)
		return -EINVAL;
	if (strchr(name, '/')) {
		const char *slash = from && *name != '/' ? strrchr(from, '/') : NULL;
		int folder = slash ? (int)(slash + 1 - from) : 0;

		/* Or a policy that extends itself would have another path each time. */
		while (folder && !strncmp(name, "./", 2))
			name += 2 + strspn(name + 2, "/");
		if (asprintf(&path, "%.*s%s", folder, from ? from : "", name) < 0) {
			path = NULL;
			return -ENOMEM;
		}
	} else {
		r = locate(name, home, &path);
		if (r < 0)
			return r;
	}
	r = read_file(path, ret_text, ret_size);
	if (r == 0)
		*ret_file = rf_steal(&path);
	return r;
}

bool rf_find_shipped(const char *file)
{
	_cleanup_free_ char *folder = profiles();
	size_t length = folder ? strlen(folder) : 0;

	return length && !strncmp(file, folder, length) && file[length] == '/' &&
	       !strchr(file + length + 1, '/');
}

char *rf_find_places(const char *home)
{
	_cleanup_text_ struct rf_text all = {0};

	for (int i = 0;; i++) {
		_cleanup_free_ char *folder = NULL;
		int r = place(i, home, &folder);

		if (r == -ERANGE)
			break;
		if (r < 0)
			return NULL;
		if (!folder)
			continue;
		if (all.n)
			rf_text_add(&all, ", ", 2);
		rf_text_add(&all, folder, strlen(folder));
	}
	rf_text_byte(&all, 0);
	if (all.failed)
		return NULL;
	return rf_steal(&all.text);
}

/* ---- what a person is told ---------------------------------------------------- */

static const char extension[] = ".yaml";

/* The names in a folder, as they are given: without .yaml. */
static int add_names(const char *folder, struct rf_arena *arena, const char ***names, size_t *n,
		     size_t *capacity)
{
	_cleanup_dir_ DIR *dir = opendir(folder);
	const struct dirent *entry;
	int r = 0;

	while (r == 0 && dir && (entry = readdir(dir))) {
		if (*entry->d_name == '.' || !ends_with(entry->d_name, extension))
			continue;
		r = rf_grow(names, capacity, *n + 1, sizeof(**names));
		if (r == 0)
			(*names)[*n] = rf_arena_copy(arena, entry->d_name,
						     strlen(entry->d_name) - strlen(extension));
		if (r == 0 && !(*names)[(*n)++])
			r = -ENOMEM;
	}
	return r;
}

/* The policy whose name comes next to what was written, malloc'ed, or NULL. */
static char *nearest(const char *written, const char *home)
{
	_cleanup_free_ const char **names = NULL;
	size_t n = 0, capacity = 0, length = strlen(written);
	struct rf_arena arena = {0};
	const char *found = NULL;
	char *copied;
	int r = 0;

	for (int i = 0; r == 0; i++) {
		_cleanup_free_ char *folder = NULL;

		r = place(i, home, &folder);
		if (r == 0 && folder)
			r = add_names(folder, &arena, &names, &n, &capacity);
	}
	if (r == -ERANGE)
		found = rf_nearest(written, names, n);
	for (size_t i = 0; r == -ERANGE && !found && length > 2 && i < n; i++)
		if (!strncmp(names[i], written, length))
			found = names[i];
	copied = found ? strdup(found) : NULL;
	rf_arena_done(&arena);
	return copied;
}

/* A file of that name where a path would begin: in the working directory, or beside `from`. */
static bool is_beside(const char *from, const char *name, const char *end)
{
	const char *slash = from ? strrchr(from, '/') : NULL;
	_cleanup_free_ char *path = NULL;
	struct stat st;

	if (asprintf(&path, "%.*s%s%s", slash ? (int)(slash + 1 - from) : 0, from ? from : "", name,
		     end) < 0) {
		path = NULL;
		return false;
	}
	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The second place of a name that ./.ringfence has, too. */
static char *shadowed(const char *name, const char *home)
{
	for (int i = PROJECT + 1;; i++) {
		_cleanup_free_ char *folder = NULL, *path = NULL;
		char *hint;

		if (place(i, home, &folder) < 0)
			return NULL;
		if (!folder)
			continue;
		if (asprintf(&path, "%s/%s.yaml", folder, name) < 0) {
			path = NULL;
			return NULL;
		}
		if (access(path, F_OK) < 0)
			continue;
		return asprintf(
			       &hint,
			       "it is ./.ringfence/%s.yaml and %s: a project must not change what a "
			       "policy's name means; give the path",
			       name, path) < 0
			       ? NULL
			       : hint;
	}
}

char *rf_find_hint(const char *name, const char *from, const char *home, int error)
{
	_cleanup_free_ char *bare = NULL, *near = NULL, *places = NULL, *meant = NULL;
	const char *slash = from ? strrchr(from, '/') : NULL;
	const char *end = "";
	char *hint;
	int n;

	if (error == EEXIST)
		return shadowed(name, home);
	if (error != ENOENT || !*name)
		return NULL;
	if (strchr(name, '/')) {
		if (!slash || *name == '/')
			return NULL;
		while (!strncmp(name, "./", 2))
			name += 2 + strspn(name + 2, "/");
		n = asprintf(&hint,
			     "looked for %.*s%s: a path starts from the folder of the policy",
			     (int)(slash + 1 - from), from, name);
		return n < 0 ? NULL : hint;
	}
	if (!is_beside(from, name, end))
		end = extension;
	if (is_beside(from, name, end)) {
		n = asprintf(&hint, "there is ./%s%s%s: write ./%s%s", name, end,
			     slash ? ", beside the policy" : "", name, end);
		return n < 0 ? NULL : hint;
	}
	bare = ends_with(name, extension) ? strndup(name, strlen(name) - strlen(extension))
					  : strdup(name);
	places = rf_find_places(home);
	if (!bare || !places)
		return NULL;
	near = nearest(bare, home);
	if (near && asprintf(&meant, "did you mean %s? ", near) < 0)
		meant = NULL;
	n = asprintf(&hint, "%slooked for %s.yaml in %s; a path needs a '/' in it",
		     meant ? meant : "", bare, places);
	return n < 0 ? NULL : hint;
}
