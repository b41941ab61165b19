/* SPDX-License-Identifier: BSD-2-Clause */
/* The events in the logs, see past.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/past.h"
#include "user/session.h"

#define SUFFIX ".jsonl"

struct log {
	char *session;
	struct timespec written;
};

struct rf_past {
	struct log *logs;
	size_t n, capacity, at; /* logs[at] is being read */
	int dir;
	FILE *file;
	char *line;
	size_t room;
};

void rf_past_free(struct rf_past *past)
{
	if (!past)
		return;
	for (size_t i = 0; i < past->n; i++)
		free(past->logs[i].session);
	free(past->logs);
	rf_closep(&past->dir);
	if (past->file)
		fclose(past->file);
	free(past->line);
	free(past);
}

static int add(struct rf_past *past, const char *session)
{
	_cleanup_free_ char *file = NULL;
	struct stat st;
	char *copy;

	if (!rf_session_name_valid(session))
		return -ENOENT;
	if (asprintf(&file, "%s" SUFFIX, session) < 0) {
		file = NULL;
		return -ENOMEM;
	}
	if (fstatat(past->dir, file, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	copy = strdup(session);
	if (!copy || rf_grow(&past->logs, &past->capacity, past->n + 1, sizeof(*past->logs))) {
		free(copy);
		return -ENOMEM;
	}
	past->logs[past->n++] = (struct log){copy, st.st_mtim};
	return 0;
}

static int by_time(const void *left, const void *right)
{
	const struct log *a = left, *b = right;

	if (a->written.tv_sec != b->written.tv_sec)
		return a->written.tv_sec < b->written.tv_sec ? -1 : 1;
	return (a->written.tv_nsec > b->written.tv_nsec) -
	       (a->written.tv_nsec < b->written.tv_nsec);
}

static int add_all(struct rf_past *past)
{
	int fd = openat(past->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		err = -errno;
		rf_closep(&fd);
		return err;
	}
	while ((entry = readdir(dir))) {
		size_t n = strlen(entry->d_name), suffix = strlen(SUFFIX);

		if (n <= suffix || strcmp(entry->d_name + n - suffix, SUFFIX) != 0)
			continue;
		entry->d_name[n - suffix] = 0;
		err = add(past, entry->d_name);
		if (err == -ENOMEM)
			return err;
	}
	if (past->n)
		qsort(past->logs, past->n, sizeof(*past->logs), by_time);
	return 0;
}

int rf_past_open(const char *log_dir, const char *session, struct rf_past **ret_past)
{
	struct rf_past *past = calloc(1, sizeof(*past));
	int err;

	if (!past)
		return -ENOMEM;
	past->dir = open(log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (past->dir < 0)
		err = -errno;
	else
		err = session ? add(past, session) : add_all(past);
	if (err) {
		rf_past_free(past);
		return err;
	}
	*ret_past = past;
	return 0;
}

/* NULL if it is gone by now. */
static FILE *open_log(const struct rf_past *past)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_fd_ int fd = -1;
	struct stat st;
	FILE *file;

	if (asprintf(&name, "%s" SUFFIX, past->logs[past->at].session) < 0) {
		name = NULL;
		return NULL;
	}
	fd = openat(past->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return NULL;
	file = fdopen(fd, "r");
	if (file)
		rf_steal_fd(&fd);
	return file;
}

json_t *rf_past_next(struct rf_past *past)
{
	while (past->at < past->n) {
		ssize_t n = -1;

		if (!past->file)
			past->file = open_log(past);
		if (past->file)
			n = getline(&past->line, &past->room, past->file);
		if (n >= 0) {
			json_t *event = json_loadb(past->line, (size_t)n, 0, NULL);

			if (json_is_object(event))
				return event;
			json_decref(event);
			continue;
		}
		if (past->file)
			fclose(past->file);
		past->file = NULL;
		past->at++;
	}
	return NULL;
}

bool rf_past_pending(const struct rf_past *past, const char *session)
{
	for (size_t i = past->at; i < past->n; i++)
		if (!strcmp(past->logs[i].session, session))
			return true;
	return false;
}
