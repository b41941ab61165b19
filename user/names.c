/* SPDX-License-Identifier: BSD-2-Clause */
/* What a session's anchors are made of: see names.h. */
#include "user/names.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bpf/verdict.h"
#include "policy/image.h"
#include "policy/util.h"
#include "user/cleanup.h"
#include "user/text.h"

#define MAX_LINKS 40 /* as the kernel's MAXSYMLINKS */

/* One mount that the caller sees; root is its place in its own file system. */
struct mount {
	unsigned int major, minor;
	char *root, *point;
	char *layers; /* of an overlay: its options, escaped as the kernel tells them; else NULL */
};

struct mounts {
	struct mount *items;
	size_t n;
};

static void mounts_done(struct mounts *mounts)
{
	size_t i;

	for (i = 0; i < mounts->n; i++) {
		free(mounts->items[i].root);
		free(mounts->items[i].point);
		free(mounts->items[i].layers);
	}
	free(mounts->items);
}

static int mounts_read(struct mounts *ret_mounts)
{
	__attribute__((cleanup(mounts_done))) struct mounts mounts = {};
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	FILE *file;
	int r = 0;

	file = fopen("/proc/self/mountinfo", "re");
	if (!file)
		return -errno;
	while (getline(&line, &room, file) >= 0) {
		struct mount mount = {}, *grown;
		char *root = NULL, *point = NULL;
		const char *rest;

		if (sscanf(line, "%*d %*d %u:%u %ms %ms", &mount.major, &mount.minor, &root,
			   &point) != 4) {
			free(root);
			free(point);
			continue;
		}
		mount.root = root;
		mount.point = point;
		rf_unescape_octal(root);
		rf_unescape_octal(point);
		rest = strstr(line, " - overlay ");
		if (rest && sscanf(rest, " - overlay %*s %ms", &mount.layers) != 1)
			mount.layers = NULL;
		grown = reallocarray(mounts.items, mounts.n + 1, sizeof(mount));
		if (!grown) {
			free(root);
			free(point);
			free(mount.layers);
			r = -ENOMEM;
			break;
		}
		mounts.items = grown;
		mounts.items[mounts.n++] = mount;
	}
	fclose(file);
	if (r == 0) {
		*ret_mounts = mounts;
		mounts = (struct mounts){};
	}
	return r;
}

/* What follows `prefix` in `path` ("" or "/..."), or NULL if it is not above it. */
static const char *below(const char *path, const char *prefix)
{
	size_t size = strcmp(prefix, "/") == 0 ? 0 : strlen(prefix);

	if (strncmp(path, prefix, size) != 0)
		return NULL;
	if (strcmp(path, "/") == 0)
		return size == 0 ? "" : NULL;
	return path[size] == '\0' || path[size] == '/' ? path + size : NULL;
}

/* "/" and "/a" -> "/a"; "/b" and "" -> "/b". */
static char *joined(const char *prefix, const char *rest)
{
	char *text;

	if (strcmp(prefix, "/") == 0)
		prefix = "";
	if (asprintf(&text, "%s%s", prefix, *prefix || *rest ? rest : "/") < 0)
		return NULL;
	return text;
}

void rf_names_done(struct rf_names *names)
{
	size_t i;

	for (i = 0; i < names->n; i++) {
		free(names->items[i].path);
		if (names->items[i].fd >= 0)
			close(names->items[i].fd);
	}
	free(names->items);
	*names = (struct rf_names){};
}

/* Add one name of the object behind `fd` (borrowed). */
static int names_add(struct rf_names *names, const char *path, int fd, bool deny_only)
{
	struct rf_name *grown, name = {.deny_only = deny_only};

	grown = reallocarray(names->items, names->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	names->items = grown;
	name.path = strdup(path);
	if (!name.path)
		return -ENOMEM;
	name.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (name.fd < 0) {
		free(name.path);
		return -errno;
	}
	names->items[names->n++] = name;
	return 0;
}

/* What the policy says of the object named `path`: the rights refused by a rule, and those given. */
static void rights_at(const void *image, const char *path, uint8_t *ret_refused, uint8_t *ret_given)
{
	struct rf_verdict verdict;

	rf_verdict_begin(&verdict, RF_ALL_RIGHTS);
	rf_verdict_add(&verdict, image, RF_NO_MASK, rf_image_state(image, path, strlen(path)), 0,
		       0);
	*ret_refused = verdict.refused;
	*ret_given = verdict.granted;
}

/* A path that leads by links, or by another mount, to what lies elsewhere. */
struct link {
	char *path, *real;
	bool planted;
};

struct links {
	struct link *items;
	size_t n;
};

static void links_done(struct links *links)
{
	for (size_t i = 0; i < links->n; i++) {
		free(links->items[i].path);
		free(links->items[i].real);
	}
	free(links->items);
}

static int links_add(struct links *links, const char *path, const char *real, bool planted)
{
	struct link *grown = reallocarray(links->items, links->n + 1, sizeof(*grown));
	struct link link = {strdup(path), strdup(real), planted};

	if (grown)
		links->items = grown;
	if (!grown || !link.path || !link.real) {
		free(link.path);
		free(link.real);
		return -ENOMEM;
	}
	links->items[links->n++] = link;
	return 0;
}

/* What the paths of a session are followed with. */
struct view {
	const void *image;
	const struct rf_planter *planter;
	struct mounts mounts;
	struct links aliases; /* other names of directories */
};

static void view_done(struct view *view)
{
	mounts_done(&view->mounts);
	links_done(&view->aliases);
}

/* Does this policy, or one that was in force before it, let the session create `path`? */
static bool is_creatable(const struct view *view, const char *path, size_t size)
{
	for (size_t i = 0; i <= view->planter->n; i++) {
		const void *image = i ? view->planter->images[i - 1] : view->image;
		struct rf_verdict verdict;

		rf_verdict_begin(&verdict, RF_CREATE);
		rf_verdict_add(&verdict, image, RF_NO_MASK, rf_image_state(image, path, size), 0,
			       0);
		if (verdict.granted)
			return true;
	}
	return false;
}

/*
 * May the session have put the link at `path` there? Yes, where it may create the link, or
 * a directory on the way to it, from the one at `top` on: a directory that takes another's
 * place brings its links along. Whether it may delete does not count, since what is gone
 * leads nowhere; and a deny of the link's own name does not help, since what a session
 * renames or makes is not judged, so it is what the policy gives there that must answer.
 *
 * Root's link in a place where the policy gives nothing but its own path is the one of
 * whoever set up the machine: a session of another user cannot make such a one, nor move it,
 * or a directory with it, to where only root may write all the way up.
 */
static bool may_plant_by(const struct view *view, const char *path, size_t top, bool by_root)
{
	size_t size = strlen(path), at = size;

	for (;;) {
		if (at == size ? !by_root : path[at] == '/' || at == 1)
			if (is_creatable(view, path, at))
				return true;
		if (at <= top)
			return false;
		at--;
	}
}

/* The same by each name of the place. `depth`: a name may have another one in its turn. */
static bool may_plant(const struct view *view, const char *path, size_t top, bool by_root,
		      unsigned int depth)
{
	if (may_plant_by(view, path, top, by_root))
		return true;
	for (size_t i = 0; depth && i < view->aliases.n; i++) {
		const struct link *alias = &view->aliases.items[i];
		const char *rest = below(path, alias->real);
		_cleanup_free_ char *name = NULL;

		if (!rest || !*rest)
			continue;
		name = joined(alias->path, rest);
		if (!name || may_plant(view, name, strlen(alias->path), by_root, depth - 1))
			return true;
	}
	return false;
}

/* An object that a path leads to. */
struct found {
	int fd;
	char *real; /* where it lies */
	bool planted; /* a link on the way may be the session's */
	bool by_user; /* a link on the way is of the user whose session it is, who is not root */
};

/*
 * A directory of root's, into which nobody else can move a link; or, with `sticky`, one in which
 * nobody else can move a directory of root's. (That one cannot come from elsewhere: the kernel
 * asks for the right to write to what moves.)
 */
static bool is_of_root_alone(int fd, mode_t sticky)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == 0 &&
	       (!(st.st_mode & (S_IWGRP | S_IWOTH)) || st.st_mode & sticky);
}

/* Follow `path` name by name; links are followed, magic ones are not. */
static int follow(const struct view *view, const char *path, struct found *ret_found)
{
	_cleanup_free_ char *rest = strdup(path), *real = strdup("/");
	_cleanup_fd_ int at = -1;
	unsigned int links = 0;
	bool planted = false, by_user = false, of_root = true;

	at = open("/", O_PATH | O_CLOEXEC | O_DIRECTORY);
	if (at < 0)
		return -errno;
	if (!rest || !real)
		return -ENOMEM;
	for (;;) {
		_cleanup_free_ char *name = NULL, *next = NULL, *left = NULL;
		char target[PATH_MAX];
		struct statfs fs;
		struct stat st;
		ssize_t size;
		size_t skip;
		char *slash;
		bool by_root;
		int fd;

		skip = strspn(rest, "/");
		slash = strchrnul(rest + skip, '/');
		name = strndup(rest + skip, slash - rest - skip);
		left = strdup(slash);
		if (!name || !left)
			return -ENOMEM;
		if (!*name)
			break;
		if (strcmp(name, "..") == 0) {
			slash = strrchr(real, '/');
			slash[slash == real] = '\0';
			next = strdup(real);
		} else if (strcmp(name, ".") == 0) {
			next = strdup(real);
		} else {
			if (asprintf(&next, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) < 0)
				next = NULL;
		}
		if (!next)
			return -ENOMEM;
		fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (fstat(fd, &st) < 0) {
			int r = -errno;

			close(fd);
			return r;
		}
		if (!S_ISLNK(st.st_mode)) {
			of_root = of_root && is_of_root_alone(at, S_ISVTX);
			close(at);
			at = fd;
			free(real);
			real = rf_steal(&next);
			free(rest);
			rest = rf_steal(&left);
			continue;
		}
		size = readlinkat(fd, "", target, sizeof(target) - 1);
		if (fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)
			size = -1;
		close(fd);
		/* What a link on procfs leads to depends on who asks. */
		if (size <= 0)
			return -ENOLINK;
		if (++links > MAX_LINKS)
			return -ELOOP;
		target[size] = '\0';
		by_root = st.st_uid == 0 && view->planter->uid != 0 &&
			  fs.f_type != FUSE_SUPER_MAGIC && of_root && is_of_root_alone(at, 0);
		planted = planted || may_plant(view, next, 1, by_root, 2);
		by_user = by_user || (st.st_uid && st.st_uid == view->planter->uid);
		if (target[0] == '/') {
			close(at);
			at = open("/", O_PATH | O_CLOEXEC | O_DIRECTORY);
			if (at < 0)
				return -errno;
			of_root = true;
			free(real);
			real = strdup("/");
		}
		free(rest);
		if (asprintf(&rest, "%s%s", target, left) < 0)
			rest = NULL;
		if (!real || !rest)
			return -ENOMEM;
	}
	ret_found->fd = rf_steal_fd(&at);
	ret_found->real = rf_steal(&real);
	ret_found->planted = planted;
	ret_found->by_user = by_user;
	return 0;
}

/*
 * File systems that give an inode's identity to another while it can still be
 * mistaken: what lies in them is known by its path alone.
 */
static bool named_only(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return true;
	switch ((unsigned int)fs.f_type) {
	case PROC_SUPER_MAGIC:
	case BPF_FS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case DEVPTS_SUPER_MAGIC:
	case BINFMTFS_MAGIC:
	case RAMFS_MAGIC:
	case OVERLAYFS_SUPER_MAGIC: /* its generations are always 0 */
		return true;
	}
	return false;
}

/*
 * A path that leads by a link to where its own name cannot hold: an error where
 * a denial would be void, and nothing where an allow would.
 */
static int link_is_void(const void *image, const char *path, const char *real, const char *hint,
			struct rf_diags *diags)
{
	uint8_t refused, refused_there = 0, given;

	rights_at(image, path, &refused, &given);
	if (real)
		rights_at(image, real, &refused_there, &given);
	if (!(refused & ~refused_there))
		return 0;
	rf_diag(diags, RF_ERROR, NULL, 0, 0, hint,
		"a rule that denies %s would be void: it is a link%s%s", path, real ? " to " : "",
		real ?: " whose target depends on who asks");
	return -EINVAL;
}

/* The last mount on this path, which hides the earlier ones; NULL if it is no mountpoint. */
static const struct mount *mount_at(const struct mounts *mounts, const char *path)
{
	size_t i;

	for (i = mounts->n; i > 0; i--)
		if (strcmp(mounts->items[i - 1].point, path) == 0)
			return &mounts->items[i - 1];
	return NULL;
}

/* The mount that `path` lies in. */
static const struct mount *mount_of(const struct mounts *mounts, const char *path)
{
	const struct mount *best = NULL;
	size_t i;

	for (i = 0; i < mounts->n; i++)
		if (below(path, mounts->items[i].point) &&
		    (!best || strlen(mounts->items[i].point) >= strlen(best->point)))
			best = &mounts->items[i];
	return best;
}

/*
 * The object's other names, by other mounts of the same file system: explicit
 * denies of these hold for it too.
 */
static int names_add_elsewhere(struct rf_names *names, const struct mounts *mounts,
			       const char *real, int fd)
{
	const struct mount *own = mount_of(mounts, real);
	_cleanup_free_ char *inside = NULL;
	size_t i;
	int r;

	if (!own)
		return 0;
	inside = joined(own->root, below(real, own->point));
	if (!inside)
		return -ENOMEM;
	for (i = 0; i < mounts->n; i++) {
		const struct mount *other = &mounts->items[i];
		_cleanup_free_ char *name = NULL;
		const char *rest;

		if (other->major != own->major || other->minor != own->minor)
			continue;
		rest = below(inside, other->root);
		if (!rest)
			continue;
		name = joined(other->point, rest);
		if (!name)
			return -ENOMEM;
		if (strcmp(name, real) == 0)
			continue;
		r = names_add(names, name, fd, true);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * A history file that is a link to /dev/null must not close /dev/null: a device
 * that the policy allows by its own name keeps to that name.
 */
static bool is_allowed_device(int fd, const void *image, const char *real)
{
	uint8_t refused, given;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode))
		return false;
	rights_at(image, real, &refused, &given);
	return given;
}

/*
 * A walk ends at the first anchor, so what lies below a link's target and has an anchor
 * of its own needs its name by the link there, too, where that says something else.
 */
static int names_add_through(struct rf_names *names, const struct links *links, const void *image)
{
	const size_t n = names->n;

	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < links->n; j++) {
			const struct rf_name at = names->items[i];
			const struct link *link = &links->items[j];
			const char *rest = below(at.path, link->real);
			_cleanup_free_ char *name = NULL;
			int r;

			if (!rest || !*rest)
				continue;
			name = joined(link->path, rest);
			if (!name)
				return -ENOMEM;
			if (rf_image_same_effect(image,
						 rf_image_state(image, at.path, strlen(at.path)),
						 rf_image_state(image, name, strlen(name))))
				continue;
			r = names_add(names, name, at.fd, at.deny_only || link->planted);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/*
 * A denied path is a link of the user's to what is not his, and would not be denied: a
 * session may have put it where nothing was, to take that away from later ones.
 */
static bool takes_away(const struct view *view, const char *path, const struct found *found)
{
	uint8_t refused, refused_there, given;
	struct stat st;

	if (!found->by_user || fstat(found->fd, &st) < 0 || st.st_uid == view->planter->uid)
		return false;
	rights_at(view->image, path, &refused, &given);
	rights_at(view->image, found->real, &refused_there, &given);
	return refused & ~refused_there;
}

/* Paths to look at, sorted in the end. */
struct paths {
	char **items;
	size_t n;
};

static void paths_done(struct paths *paths)
{
	size_t i;

	for (i = 0; i < paths->n; i++)
		free(paths->items[i]);
	free(paths->items);
}

static int paths_add(struct paths *paths, const char *path, size_t size)
{
	char **grown;

	grown = reallocarray(paths->items, paths->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	paths->items = grown;
	grown[paths->n] = strndup(path, size);
	if (!grown[paths->n])
		return -ENOMEM;
	paths->n++;
	return 0;
}

/*
 * Where a layer of lowerdir= ends, or NULL at the end of the list. The kernel tells the ':' in a name
 * as "\072"; before Linux 6.6, as the caller wrote it: "\134:", a backslash and a ':'.
 */
static char *layer_end(char *text)
{
	bool escaped = false;

	while (*text) {
		if (strncmp(text, "\\134", 4) == 0) {
			escaped = !escaped;
			text += 4;
			continue;
		}
		if (*text == ':' && !escaped)
			return text;
		escaped = false;
		text++;
	}
	return NULL;
}

/* The name of a layer, from what the kernel told. */
static void layer_unescape(char *layer)
{
	char *to = layer;

	rf_unescape_octal(layer);
	/* A backslash may be of the name, or the caller's before a ':', a ',' or another one. */
	if (!strchr(layer, '\\') || faccessat(AT_FDCWD, layer, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	for (const char *from = layer; *from; from++) {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	*to = '\0';
}

/*
 * The layers of an overlay, the topmost first: `merged` those whose paths are the overlay's own, ""
 * for one that cannot be seen; else all that can, with those of data alone.
 */
static int layers_read(const struct mount *mount, bool merged, struct paths *ret_layers)
{
	_cleanup_free_ char *options = strdup(mount->layers);
	char *option, *state = NULL, *layer, *next;
	int r = options ? 0 : -ENOMEM;

	for (option = options ? strtok_r(options, ",", &state) : NULL; option && r == 0;
	     option = strtok_r(NULL, ",", &state)) {
		bool list = strncmp(option, "lowerdir=", 9) == 0;
		bool upper = strncmp(option, "upperdir=", 9) == 0;
		size_t others = ret_layers->n;

		if (!list && !upper && strncmp(option, "lowerdir+=", 10) != 0 &&
		    (merged || strncmp(option, "datadir+=", 9) != 0))
			continue;
		for (layer = strchr(option, '=') + 1; layer && r == 0; layer = next) {
			next = list ? layer_end(layer) : NULL;
			if (next)
				*next++ = '\0';
			/* "::": what follows is data alone. */
			if (merged && next && *next == ':')
				next = NULL;
			layer_unescape(layer);
			/* Others are seen from elsewhere only: what lies there stays out of reach. */
			if (*layer == '/' || merged)
				r = paths_add(ret_layers, layer, *layer == '/' ? strlen(layer) : 0);
		}
		/* It is told last. */
		if (upper && r == 0 && ret_layers->n > others) {
			char *top = ret_layers->items[others];

			memmove(ret_layers->items + 1, ret_layers->items,
				others * sizeof(*ret_layers->items));
			ret_layers->items[0] = top;
		}
	}
	return r;
}

/*
 * What lies in a layer at the place that is `rest` ("" or "/...") in the mount. Below the
 * layer's own path no link is followed and no mount crossed, as overlayfs does: a link there
 * may be hidden by another layer's directory, and leads to what is not of the overlay.
 */
static int follow_layer(const struct view *view, const struct mount *mount, const char *layer,
			const char *rest, struct found *ret_found)
{
	static const struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
					    .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	_cleanup_free_ char *inside = joined(mount->root, rest), *top = NULL;
	struct found found = {.fd = -1};
	_cleanup_fd_ int fd = -1;
	int r = inside ? follow(view, layer, &found) : -ENOMEM;

	if (r < 0 || !found.real)
		return r;
	if (strcmp(inside, "/") != 0) {
		fd = found.fd;
		top = found.real;
		found.fd = syscall(SYS_openat2, fd, inside + 1, &how, sizeof(how));
		if (found.fd < 0)
			return -errno;
		found.real = joined(top, inside);
		if (!found.real) {
			close(found.fd);
			return -ENOMEM;
		}
	}
	*ret_found = found;
	return 0;
}

/*
 * The file of an overlay that `real` names, in the layers that have it: what the kernel opens
 * there is an object with names, though the overlay's own is none. A directory needs no name,
 * since the root of its layer has one; other things have their content not there.
 */
static int names_add_beneath(struct rf_names *names, const struct view *view, const char *real,
			     int fd, struct rf_diags *diags)
{
	__attribute__((cleanup(paths_done))) struct paths layers = {};
	const struct mount *mount = mount_of(&view->mounts, real);
	bool hidden = false;
	struct stat st;
	int r;

	if (!mount || !mount->layers || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	r = layers_read(mount, true, &layers);
	for (size_t i = 0; i < layers.n && r == 0; i++) {
		struct found found = {.fd = -1};
		_cleanup_fd_ int file = -1;

		if (!*layers.items[i]) {
			hidden = true; /* perhaps */
			continue;
		}
		r = follow_layer(view, mount, layers.items[i], below(real, mount->point), &found);
		if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
			return r;
		file = found.fd;
		free(found.real);
		if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP)
			rf_diag(diags, RF_WARNING, NULL, 0, 0, NULL,
				"%s: the file of its layer %s cannot be looked at (%s); other hard links of it are not known",
				real, layers.items[i], strerror(-r));
		if (r < 0 || named_only(file) || fstat(file, &st) < 0 || !S_ISREG(st.st_mode)) {
			hidden |= r == 0;
			r = 0;
			continue;
		}
		/* Below the first, it is not what the path names: it may lose by that, not gain. */
		r = names_add(names, real, file, found.planted || hidden);
		hidden = true;
		if (r == 0)
			r = names_add_elsewhere(names, &view->mounts, real, file);
	}
	return r;
}

/* All names of the object that `path` leads to. `literal`: the policy writes this path. */
static int names_add_path(struct rf_names *names, struct links *links, const struct view *view,
			  const char *path, bool literal, struct rf_diags *diags)
{
	const struct mounts *mounts = &view->mounts;
	const void *image = view->image;
	_cleanup_free_ char *real = NULL;
	struct found found = {.fd = -1};
	_cleanup_fd_ int fd = -1;
	int r;

	r = follow(view, path, &found);
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	if (r == -ENOLINK)
		return literal ? link_is_void(image, path, NULL,
					      "name what it leads to, as in /proc/*/environ", diags)
			       : 0;
	if (r < 0 || !found.real) {
		if (literal && (r == -ENOENT || r == -ENOTDIR))
			names->absent++;
		else if (literal)
			rf_diag(diags, RF_NOTE, NULL, 0, 0, NULL, "%s: %s; the rule holds by name",
				path, strerror(-r));
		return 0;
	}
	fd = found.fd;
	real = found.real;
	if (named_only(fd) && !mount_at(mounts, real)) {
		r = literal && strcmp(real, path) != 0
			    ? link_is_void(image, path, real, "name what it leads to", diags)
			    : 0;
		return r < 0 ? r : names_add_beneath(names, view, real, fd, diags);
	}
	/* The real place first: where two names say the same, events show the earlier. */
	r = names_add(names, real, fd, false);
	if (r < 0)
		return r;
	if (strcmp(real, path) != 0 && !is_allowed_device(fd, image, real)) {
		if (literal && takes_away(view, path, &found))
			rf_diag(diags, RF_WARNING, NULL, 0, 0,
				"remove the link if a session may have put it there",
				"%s, which is denied, is a link of the user's to %s: that is denied for it, too",
				path, real);
		else if (found.planted)
			rf_diag(diags, RF_WARNING, NULL, 0, 0,
				"name the place itself if it is meant to be allowed",
				"%s leads to %s by a link that the session may replace; an allow does not follow it",
				path, real);
		r = names_add(names, path, fd, found.planted);
		if (r == 0)
			r = links_add(links, path, real, found.planted);
		if (r < 0)
			return r;
	}
	return names_add_elsewhere(names, mounts, real, fd);
}

/* The path and all its parents, so that a walk ends at the first of them that it meets. */
static int paths_add_all(struct paths *paths, const char *path)
{
	size_t size = strlen(path);
	int r;

	for (; size > 1; size--) {
		if (path[size] != '\0' && path[size] != '/')
			continue;
		r = paths_add(paths, path, size);
		if (r < 0)
			return r;
	}
	return paths_add(paths, "/", 1);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sort, keeping one of each. */
static void paths_sort(struct paths *paths)
{
	size_t n = 0;

	qsort(paths->items, paths->n, sizeof(*paths->items), compare);
	for (size_t i = 0; i < paths->n; i++) {
		if (n && strcmp(paths->items[n - 1], paths->items[i]) == 0)
			free(paths->items[i]);
		else
			paths->items[n++] = paths->items[i];
	}
	paths->n = n;
}

/*
 * The layers of an overlay: the kernel opens a file there once it has opened it in the
 * overlay, and a rule for the overlay's name holds for the same file in its layer.
 */
static int names_add_layers(struct rf_names *names, const struct view *view,
			    const struct mount *mount)
{
	__attribute__((cleanup(paths_done))) struct paths layers = {};
	int r = layers_read(mount, false, &layers);

	for (size_t i = 0; i < layers.n && r == 0; i++) {
		_cleanup_free_ char *real = NULL;
		struct found found = {.fd = -1};
		_cleanup_fd_ int fd = -1;

		r = follow_layer(view, mount, layers.items[i], "", &found);
		if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
			return r;
		fd = found.fd;
		real = found.real;
		if (r < 0 || !real || named_only(fd)) {
			r = 0;
			continue;
		}
		/* Its place in the overlay first: that is what the session opens. */
		r = names_add(names, mount->point, fd, found.planted);
		if (r == 0)
			r = names_add(names, real, fd, false);
	}
	return r;
}

/* What two mounts show of one file system has a name by each. */
static int aliases_add_mounts(struct links *aliases, const struct mounts *mounts)
{
	int r = 0;

	for (size_t i = 0; i < mounts->n * mounts->n && r == 0; i++) {
		const struct mount *own = &mounts->items[i / mounts->n];
		const struct mount *other = &mounts->items[i % mounts->n];
		_cleanup_free_ char *place = NULL;
		const char *rest;

		if (own == other || own->major != other->major || own->minor != other->minor)
			continue;
		rest = below(own->root, other->root);
		if (rest) {
			place = joined(other->point, rest);
			r = place ? links_add(aliases, place, own->point, false) : -ENOMEM;
			continue;
		}
		rest = below(other->root, own->root);
		if (!rest)
			continue;
		place = joined(own->point, rest);
		r = place ? links_add(aliases, other->point, place, false) : -ENOMEM;
	}
	return r;
}

/* What an overlay shows lies in its layers: a link that is put there is one of the overlay, too. */
static int aliases_add_layers(struct view *view, const struct mount *mount)
{
	__attribute__((cleanup(paths_done))) struct paths layers = {};
	int r = layers_read(mount, false, &layers);

	for (size_t i = 0; i < layers.n && r == 0; i++) {
		_cleanup_free_ char *real = NULL;
		struct found found = {.fd = -1};

		r = follow_layer(view, mount, layers.items[i], "", &found);
		if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
			return r;
		rf_closep(&found.fd);
		real = found.real;
		if (r < 0 || !real) {
			r = 0;
			continue;
		}
		r = links_add(&view->aliases, real, mount->point, false);
		if (r == 0)
			r = links_add(&view->aliases, mount->point, real, false);
	}
	return r;
}

/* What a path leads to by a link that is followed for an allow has that name, too. */
static int aliases_add_link(struct view *view, const char *path)
{
	_cleanup_free_ char *real = NULL;
	struct found found = {.fd = -1};
	_cleanup_fd_ int fd = -1;
	int r = follow(view, path, &found);

	if (r < 0 || !found.real)
		return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r : 0;
	fd = found.fd;
	real = found.real;
	return found.planted || strcmp(real, path) == 0
		       ? 0
		       : links_add(&view->aliases, path, real, false);
}

int rf_names_collect(const struct rf_policy *policy, const void *image,
		     const struct rf_planter *planter, struct rf_diags *diags,
		     struct rf_names *ret_names)
{
	__attribute__((cleanup(view_done))) struct view view = {.image = image, .planter = planter};
	__attribute__((cleanup(rf_names_done))) struct rf_names names = {};
	__attribute__((cleanup(links_done))) struct links links = {};
	__attribute__((cleanup(paths_done))) struct paths all = {};
	const struct mounts *mounts = &view.mounts;
	const char *const *written;
	size_t n, i;
	int r;

	r = mounts_read(&view.mounts);
	if (r == 0)
		r = aliases_add_mounts(&view.aliases, mounts);
	for (i = 0; i < mounts->n && r == 0; i++)
		if (mounts->items[i].layers)
			r = aliases_add_layers(&view, &mounts->items[i]);
	if (r < 0)
		return r;
	n = rf_policy_paths(policy, &written);
	r = paths_add(&all, "/", 1);
	for (i = 0; i < n && r == 0; i++)
		r = paths_add_all(&all, written[i]);
	for (i = 0; i < mounts->n && r == 0; i++)
		r = paths_add_all(&all, mounts->items[i].point);
	if (r < 0)
		return r;
	paths_sort(&all);
	for (i = 0; i < all.n && r == 0; i++)
		r = aliases_add_link(&view, all.items[i]);
	for (i = 0; i < all.n && r == 0; i++) {
		const char *path = all.items[i];
		bool literal = n && bsearch(&path, written, n, sizeof(*written), compare);

		r = names_add_path(&names, &links, &view, path, literal, diags);
	}
	if (r == 0)
		r = names_add_through(&names, &links, image);
	for (i = 0; i < mounts->n && r == 0; i++)
		if (mounts->items[i].layers)
			r = names_add_layers(&names, &view, &mounts->items[i]);
	if (r < 0)
		return r;
	/* A profile names many that few machines have. */
	if (names.absent)
		rf_diag(diags, RF_NOTE, NULL, 0, 0, NULL,
			"%zu path%s of the policy do%s not exist yet; %s hold%s by name",
			names.absent, names.absent == 1 ? "" : "s", names.absent == 1 ? "es" : "",
			names.absent == 1 ? "its rule" : "their rules",
			names.absent == 1 ? "s" : "");
	*ret_names = names;
	names = (struct rf_names){};
	return 0;
}
