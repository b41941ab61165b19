/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A loaded policy on its way to the daemon, for the commands that put one in force:
 * its workspace is looked at, its names are collected and sent, then its image.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/command.h"
#include "user/client.h"
#include "user/limits.h"
#include "user/text.h"

static bool at_or_above(const char *folder, const char *path)
{
	size_t len = strlen(folder);

	return !strncmp(folder, path, len) && (!path[len] || path[len] == '/');
}

/*
 * A workspace is writable. The root or a home as a workspace would hand over
 * every key and start file there is.
 */
int load_check_workspace(const struct load *load, struct rf_diags *diags)
{
	_cleanup_free_ char *workspace = realpath(load->workspace, NULL),
			    *home = load->home ? realpath(load->home, NULL) : NULL;
	const char *what;

	/* One that does not exist cannot be the home. */
	if (!load->workspace_used || !workspace)
		return 0;
	if (!strcmp(workspace, "/"))
		what = "the root";
	else if (home && !strcmp(workspace, home))
		what = "a home";
	else if (home && at_or_above(workspace, home))
		what = "above a home";
	else
		return 0;
	/* What was said about the policy came of this workspace. */
	rf_diags_done(diags);
	*diags = (struct rf_diags){0};
	rf_diag(diags, RF_ERROR, NULL, 0, 0,
		"go to the project's folder, or name one with --var WORKSPACE=FOLDER",
		"refusing %s as the workspace: it is %s", load->workspace, what);
	return -EPERM;
}

/* The image in memory that nobody can change any more, so that the daemon judges what it loads. */
static int seal_image(const struct load *load, struct rf_diags *diags, int *ret_fd)
{
	const unsigned char *bytes = load->image;
	size_t left = load->size;
	int fd, r;

	fd = memfd_create("ringfence-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		goto failed;
	while (left > 0) {
		ssize_t n = write(fd, bytes, left);

		if (n < 0)
			goto failed;
		bytes += n;
		left -= (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		goto failed;
	*ret_fd = fd;
	return 0;

failed:
	r = -errno;
	if (fd >= 0)
		close(fd);
	rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot hold the policy's image: %s",
		strerror(-r));
	return r;
}

json_t *json_escaped(const char *text)
{
	_cleanup_free_ char *safe = rf_escape(text, strlen(text));

	return safe ? json_string(safe) : NULL;
}

bool load_audit(const struct load *load)
{
	return load->audit || rf_policy_audit(load->policy);
}

int load_names(struct load *load, struct rf_diags *diags)
{
	const struct rlimit most = {RF_MAX_ANCHORS, RF_MAX_ANCHORS};
	struct rlimit files;
	int r;

	/* A descriptor for each name. Root may have more than its limit. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
	    (files.rlim_max >= most.rlim_max || setrlimit(RLIMIT_NOFILE, &most) < 0)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	r = rf_names_collect(load->policy, load->image, &load->planter, diags, &load->names);
	if (r == -EMFILE || r == -ENFILE)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, "raise the limit of open files (ulimit -Hn)",
			"the policy names more files than can be open at once");
	return r;
}

/* What the daemon is told of the policy. */
static int describe(const struct load *load, json_t *request)
{
	_cleanup_json_ json_t *policy =
		json_pack("{s:s, s:o, s:b, s:b, s:o}", "policy", rf_policy_name(load->policy),
			  "policy_file", json_escaped(load->file), "audit", load_audit(load),
			  "log_all", rf_policy_log_all(load->policy), "limits",
			  rf_limits_json(rf_policy_limits(load->policy), true));

	return policy ? json_object_update(request, policy) : -1;
}

int load_send(struct load *load, struct rf_client *client, json_t *request, struct rf_diags *diags,
	      json_t **ret_reply, int *ret_fd, int *ret_exit)
{
	_cleanup_json_ json_t *own = request;
	_cleanup_fd_ int image = -1;
	int r;

	if (ret_exit)
		*ret_exit = EXIT_FAILED;
	if (!own || describe(load, own) < 0) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "no memory");
		return -ENOMEM;
	}
	r = rf_client_anchor(client, &load->names, diags);
	if (r < 0)
		return r;
	rf_names_done(&load->names);
	r = seal_image(load, diags, &image);
	if (r < 0)
		return r;
	return rf_client_call(client, json_incref(own), &image, 1, diags, ret_reply, ret_fd,
			      ret_exit);
}
