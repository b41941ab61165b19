/* SPDX-License-Identifier: BSD-2-Clause */
/* ringfence reload: another policy for a session that runs. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "policy/image.h"
#include "tools/command.h"
#include "user/client.h"
#include "user/text.h"

enum { KEY_AUDIT = 'a', KEY_VAR = 'v', KEY_VERBOSE = 'V' };

static const struct command_option options[] = {
	{KEY_AUDIT, "audit", NULL, "only report what the policy would deny"},
	{KEY_VAR, "var", "NAME=VALUE", "set a variable of the policy; may be repeated"},
	{KEY_VERBOSE, "verbose", NULL, "say more: which paths do not exist yet"},
	OPTION_JSON,
	OPTION_END,
};

/* What a session that runs has told the daemon of itself. */
struct told {
	char *home, *workspace; /* NULL: not known */
	uid_t uid;
	void *images; /* of the policies that have been in force, mapped; NULL: none yet */
	size_t size;
	const void **each; /* of them */
	size_t n;
};

static void told_done(struct told *told)
{
	free(told->home);
	free(told->workspace);
	if (told->images)
		munmap(told->images, told->size);
	free(told->each);
}
#define _cleanup_told_ __attribute__((cleanup(told_done)))

/* A text as its bytes; NULL where there is none. */
static int bytes_of(const json_t *session, const char *name, char **ret_bytes)
{
	const char *text = json_text(session, name);

	return *text ? rf_unescape(text, ret_bytes, NULL) : 0;
}

static int find_session(struct rf_client *client, const char *name, struct rf_diags *diags,
			struct told *ret_told)
{
	_cleanup_json_ json_t *reply = NULL;
	const json_t *session;
	size_t i;
	int r = client ? rf_client_call(client, json_pack("{s:s}", "op", "list"), NULL, 0, diags,
					&reply, NULL, NULL)
		       : 0;

	if (r < 0)
		return r;
	json_array_foreach (json_object_get(reply, "sessions"), i, session) {
		if (strcmp(json_text(session, "session"), name) != 0)
			continue;
		r = bytes_of(session, "home", &ret_told->home)
			    ?: bytes_of(session, "workspace", &ret_told->workspace);
		/* Of a session that a daemon without these fields started. */
		if (r == 0 && !ret_told->workspace)
			r = bytes_of(session, "cwd", &ret_told->workspace);
		ret_told->uid = (uid_t)json_integer_value(json_object_get(session, "uid"));
		if (r < 0)
			rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot tell its workspace: %s",
				strerror(-r));
		return r;
	}
	rf_diag(diags, RF_ERROR, NULL, 0, 0, "ringfence ps lists them",
		"there is no session \"%s\"", name);
	return -ENOENT;
}

static int take_images(int fd, struct told *told, struct rf_diags *diags)
{
	struct stat st;
	size_t at = 0;
	void *images;

	if (fstat(fd, &st) < 0)
		return -errno;
	images = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (images == MAP_FAILED)
		return -errno;
	told->images = images;
	told->size = (size_t)st.st_size;
	while (at < told->size) {
		const struct rf_image *image =
			(const struct rf_image *)((const char *)told->images + at);
		const void **grown;
		int r;

		if (told->size - at < sizeof(*image) || told->size - at < image->size)
			return -EBADMSG;
		r = rf_image_verify(image, image->size, diags);
		if (r < 0)
			return r;
		grown = reallocarray(told->each, told->n + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		told->each = grown;
		told->each[told->n++] = image;
		at += image->size;
	}
	return 0;
}

/* What was in force before: under it links may have been planted. */
static int find_images(struct rf_client *client, const char *name, struct rf_diags *diags,
		       struct told *told)
{
	_cleanup_json_ json_t *reply = NULL;
	_cleanup_fd_ int fd = -1;
	int r = rf_client_call(client, json_pack("{s:s, s:s}", "op", "images", "session", name),
			       NULL, 0, diags, &reply, &fd, NULL);

	if (r < 0)
		return r;
	r = take_images(fd, told, diags);
	if (r < 0)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL,
			"cannot tell which policies it has had: %s", strerror(-r));
	return r;
}

/* 0, or -errno with *ret_exit. */
static int reload(struct load *load, const char *name, struct rf_diags *diags,
		  struct rf_client **client, json_t **ret_reply, int *ret_exit)
{
	_cleanup_told_ struct told told = {0};
	int r;

	*ret_exit = EXIT_FAILED;
	r = daemon_connect(diags, client);
	if (r == 0)
		r = find_session(*client, name, diags, &told);
	if (r == 0)
		r = find_images(*client, name, diags, &told);
	if (r < 0)
		return r;
	load->home = told.home;
	load->folder = told.workspace;
	load->planter = (struct rf_planter){told.uid, told.each, told.n};
	r = load_policy(load, diags);
	if (r < 0 && r != -ENOMEM)
		*ret_exit = EXIT_POLICY;
	if (r == 0)
		r = load_check_workspace(load, diags);
	if (r == 0) {
		r = load_names(load, diags);
		if (r == -EINVAL)
			*ret_exit = EXIT_KERNEL; /* a rule would be void */
	}
	if (r == 0)
		r = load_send(load, *client,
			      json_pack("{s:s, s:s}", "op", "reload", "session", name), diags,
			      ret_reply, NULL, ret_exit);
	load->home = load->folder = NULL;
	load->planter = (struct rf_planter){0};
	return r;
}

static int run_reload(const struct command *command, int argc, char **argv)
{
	_cleanup_diags_ struct rf_diags diags = {0};
	_cleanup_load_ struct load load = {.features = FEATURES_ENFORCED, .stored = true};
	_cleanup_json_ json_t *reply = NULL;
	struct rf_client *client = NULL;
	bool json = false, verbose = false;
	int key, r, code;

	while ((key = command_getopt(command, argc, argv)) != OPTIONS_DONE) {
		switch (key) {
		case KEY_AUDIT:
			load.audit = true;
			break;
		case KEY_VAR:
			if (!load_var(command, &load, optarg))
				return command_getopt_end(command, OPTIONS_BAD);
			break;
		case KEY_VERBOSE:
			verbose = true;
			break;
		case 'j':
			json = true;
			break;
		default:
			return command_getopt_end(command, key);
		}
	}
	if (argc - optind != 2)
		return command_misused(command, "one session and one policy, please");

	load.name = argv[optind + 1];
	r = reload(&load, argv[optind], &diags, &client, &reply, &code);
	rf_client_close(client);
	print_diags(&diags, verbose ? RF_NOTE : RF_WARNING);
	if (r < 0)
		return code;
	if (json) {
		json_object_del(reply, "ok");
		json_object_del(reply, "diags");
		return print_json(json_incref(reply), true);
	}
	printf("%s: policy %s (%s)\n", json_text(reply, "session"), json_text(reply, "policy"),
	       json_text(reply, "mode"));
	return EXIT_OK;
}

const struct command command_reload = {
	.name = "reload",
	.arguments = "SESSION POLICY",
	.summary = "put another policy in force for a session",
	.about =
		"It holds for the very next act of every process of the session, with its mode and\n"
		"limits. ${WORKSPACE} and ~ are the session's; values given to `run` with --var are\n"
		"given again. If anything fails, the old policy has been in force all the time.\n"
		"Exit status: 0 done, 1 failed, 3 the policy is not valid, 4 it cannot be enforced.\n",
	.options = options,
	.run = run_reload,
};
