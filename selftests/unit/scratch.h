/* SPDX-License-Identifier: BSD-2-Clause */
/* A folder and a cgroup root of the test's own, and processes to put into cgroups. */
#ifndef RF_UNIT_SCRATCH_H
#define RF_UNIT_SCRATCH_H

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "user/cgroup.h"

static char scratch[64];
static char *scratch_root; /* of cgroups; NULL: there is no writable cgroup v2 here */

static int scratch_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int scratch_rmdir(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP)
		rmdir(path);
	return 0;
}

/* Tests run at the same time as others: the cgroup root is not the real one. */
static inline char *scratch_cgroup_root(void)
{
	struct rf_diags diags = {0};
	char *root;

	if (!scratch_root && !rf_cgroup_root("/proc/self/mountinfo", &diags, &root)) {
		if (asprintf(&scratch_root, "%s/unit.%d", root, (int)getpid()) < 0 ||
		    mkdir(scratch_root, 0700)) {
			free(scratch_root);
			scratch_root = NULL;
		}
		free(root);
	}
	rf_diags_done(&diags);
	return scratch_root;
}

static inline uint64_t scratch_root_id(void)
{
	struct stat st;

	return stat(scratch_root, &st) ? 0 : st.st_ino;
}

static inline int scratch_setup(void **state)
{
	(void)state;
	snprintf(scratch, sizeof(scratch), "/tmp/rf-unit-XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
	(void)state;
	if (scratch_root) {
		char *slash = strrchr(scratch_root, '/');
		struct rf_session_cgroup all;

		/* What a test that failed has left behind. */
		if (!rf_cgroup_open(scratch_root, scratch_root_id(), &all)) {
			rf_cgroup_kill(&all);
			for (int i = 0; i < 100 && rf_cgroup_populated(&all) == 1; i++)
				usleep(10000);
			rf_cgroup_done(&all);
		}
		nftw(scratch_root, scratch_rmdir, 8, FTW_DEPTH | FTW_PHYS);
		*slash = 0;
		rmdir(scratch_root); /* fails, as it should, while others use it */
		free(scratch_root);
		scratch_root = NULL;
	}
	return nftw(scratch, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static inline const char *scratch_path(const char *name)
{
	static char path[4][256];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", scratch, name);
	return p;
}

__attribute__((format(printf, 2, 3))) static inline void scratch_write(const char *name,
								       const char *format, ...)
{
	FILE *file = fopen(scratch_path(name), "we");
	va_list args;

	if (!file)
		abort();
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	if (fclose(file))
		abort();
}

/* A process that sleeps in the cgroup of this cgroup.procs; it is there on return. */
static inline pid_t scratch_sleeper(int procs)
{
	pid_t pid = fork();
	char text[16];
	int n;

	if (pid < 0)
		abort();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_range(3, ~0u, 0); /* a connection must not live on in it */
		for (;;)
			pause();
	}
	n = snprintf(text, sizeof(text), "%d", (int)pid);
	if (write(procs, text, (size_t)n) != n)
		abort();
	return pid;
}

#endif
