/* SPDX-License-Identifier: BSD-2-Clause */
/* From a policy's name to its image, for the commands that take one. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "user/find.h"
#include "user/run.h"

int load_getopt(const struct command *command, int argc, char **argv, struct load *load)
{
	int key;

	for (;;) {
		switch (key = command_getopt(command, argc, argv)) {
		case 'j':
			load->json = true;
			break;
		case 'u':
			load->user = optarg;
			break;
		case 'v':
			if (load_var(command, load, optarg))
				break;
			return OPTIONS_BAD;
		default:
			return key;
		}
	}
}

int load_home(struct load *load, struct rf_diags *diags)
{
	__attribute__((cleanup(rf_run_identity_done))) struct rf_run_identity identity = {0};
	int r = rf_run_identity(load->user, diags, &identity);

	if (r < 0)
		return r;
	load->home = load->user_home = identity.home;
	identity.home = NULL;
	return 0;
}

/* The values that rules begin with: said once here, not for each of these rules. */
static bool is_place(const char *argument)
{
	return !strncmp(argument, "WORKSPACE=", strlen("WORKSPACE=")) ||
	       !strncmp(argument, "HOME=", strlen("HOME="));
}

bool load_var(const struct command *command, struct load *load, char *argument)
{
	const char *c = argument, *value;

	if (isalpha((unsigned char)*c) || *c == '_')
		while (isalnum((unsigned char)*c) || *c == '_')
			c++;
	if (*c != '=' || c == argument) {
		command_misused(command, "--var takes NAME=VALUE, not %s", argument);
		return false;
	}
	value = c + 1;
	if (is_place(argument) && *value != '/') {
		bool home = *value == '~' && (!value[1] || value[1] == '/');

		value += home;
		while (*value == '/' || !strncmp(value, "./", 2) || !strcmp(value, "."))
			value++;
		command_misused(command,
				"--var %s is no absolute path: write --var %.*s=\"$%s%s%s\"",
				argument, (int)(c - argument), argument, home ? "HOME" : "PWD",
				*value ? "/" : "", value);
		return false;
	}
	if (rf_grow(&load->vars, &load->vars_capacity, load->n_vars + 1, sizeof(*load->vars)) < 0) {
		say("no memory");
		return false;
	}
	load->vars[load->n_vars++] = (struct load_var){.text = argument};
	return true;
}

static const char *given(struct load *load, const char *name)
{
	const char *value = NULL;
	size_t len = strlen(name);

	/* The last one counts, as everywhere on a command line. */
	for (size_t i = 0; i < load->n_vars; i++) {
		struct load_var *var = &load->vars[i];

		if (strncmp(var->text, name, len) != 0 || var->text[len] != '=')
			continue;
		var->used = true;
		value = var->text + len + 1;
	}
	return value;
}

/* A misspelled one would leave the policy's own value in force. */
static void warn_unused(const struct load *load, struct rf_diags *diags)
{
	for (size_t i = 0; i < load->n_vars; i++)
		if (!load->vars[i].used)
			rf_diag(diags, RF_WARNING, NULL, 0, 0, "look for its name in the policy",
				"--var %s: the policy has no such variable", load->vars[i].text);
}

const char *load_variable(struct load *load, const char *name, bool env)
{
	if (env)
		return getenv(name);
	if (!strcmp(name, "WORKSPACE")) {
		load->workspace_used = true;
		return load->workspace;
	}
	return strcmp(name, "HOME") ? given(load, name) : load->home;
}

static const char *variable(void *userdata, const char *name, bool env)
{
	return load_variable(userdata, name, env);
}

/* The path from the root on: what is stored is read in other folders. */
static char *absolute(const char *path)
{
	_cleanup_free_ char *folder = getcwd(NULL, 0);
	char *whole;

	if (*path == '/' || !folder)
		return strdup(path);
	while (!strncmp(path, "./", 2))
		path += 2 + strspn(path + 2, "/");
	return asprintf(&whole, "%s/%s", strcmp(folder, "/") ? folder : "", path) < 0 ? NULL
										      : whole;
}

static int find(const struct load *load, const char *name, const char *from, char **ret_file,
		char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *file = NULL;
	int r = rf_find_policy(name, from, load->home, &file, ret_text, ret_size);

	if (r < 0)
		return r;
	*ret_file = load->stored ? absolute(file) : rf_steal(&file);
	if (*ret_file)
		return 0;
	free(*ret_text);
	*ret_text = NULL;
	return -ENOMEM;
}

static int parent(void *userdata, const char *name, const char *from, char **ret_file,
		  char **ret_text, size_t *ret_size)
{
	return find(userdata, name, from, ret_file, ret_text, ret_size);
}

static char *parent_hint(void *userdata, const char *name, const char *from, int error)
{
	const struct load *load = userdata;

	return rf_find_hint(name, from, load->home, error);
}

static void not_found(const struct load *load, int error, struct rf_diags *diags)
{
	_cleanup_free_ char *hint = rf_find_hint(load->name, NULL, load->home, error);

	if (error == EEXIST) {
		rf_diag(diags, RF_ERROR, NULL, 0, 0, hint, RF_SHADOWED, load->name);
		return;
	}
	if (error != ENOENT || strchr(load->name, '/')) {
		rf_diag(diags, RF_ERROR, load->name, 0, 0, NULL, "cannot read the policy: %s",
			strerror(error));
		return;
	}
	rf_diag(diags, RF_ERROR, NULL, 0, 0, hint, "there is no policy \"%s\"", load->name);
}

/* One note for each feature that was accepted and is not enforced, where it is first used. */
static void note_needs(const struct rf_policy *policy, struct rf_diags *diags)
{
	unsigned int said = FEATURES_ENFORCED;
	const struct rf_need *needs;
	size_t n = rf_policy_needs(policy, &needs);

	for (size_t i = 0; i < n; i++) {
		const struct rf_need *need = &needs[i];

		if (said & 1u << need->feature)
			continue;
		said |= 1u << need->feature;
		rf_diag(diags, RF_NOTE, need->file, need->line, need->column,
			"`ringfence run` refuses a policy with it",
			"`%s` is not enforced by this version", need->name);
	}
}

int load_places(struct load *load, struct rf_diags *diags)
{
	const char *workspace = given(load, "WORKSPACE"), *home = given(load, "HOME");
	int r;

	if (load->workspace)
		return 0;
	if (home)
		load->home = home;
	if (workspace && access(workspace, F_OK) < 0 && errno == ENOENT)
		rf_diag(diags, RF_WARNING, NULL, 0, 0, "is it misspelled?",
			"--var WORKSPACE=%s: there is no such folder", workspace);
	if (!workspace)
		workspace = load->folder;
	load->workspace = workspace ? strdup(workspace) : getcwd(NULL, 0);
	if (load->workspace)
		return 0;
	r = -errno;
	rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "cannot tell the working directory: %s",
		strerror(errno));
	return r;
}

int load_policy(struct load *load, struct rf_diags *diags)
{
	const struct rf_policy_env env = {
		.variable = variable,
		.parent = parent,
		.parent_hint = parent_hint,
		.userdata = load,
		.features = load->features,
	};
	_cleanup_free_ char *text = NULL;
	size_t size;
	int r;

	r = load_places(load, diags);
	if (r < 0)
		return r;
	r = find(load, load->name, NULL, &load->file, &text, &size);
	if (r < 0) {
		not_found(load, -r, diags);
		return r;
	}
	r = rf_policy_parse(load->file, text, size, &env, diags, &load->policy);
	if (r == 0)
		note_needs(load->policy, diags);
	if (r == 0)
		warn_unused(load, diags);
	if (r == 0)
		r = rf_policy_compile(load->policy, diags, &load->image, &load->size);
	if (r == -ENOMEM)
		rf_diag(diags, RF_ERROR, NULL, 0, 0, NULL, "no memory");
	return r;
}

void load_done(struct load *load)
{
	free(load->vars);
	free(load->workspace);
	free(load->user_home);
	free(load->file);
	rf_policy_free(load->policy);
	free(load->image);
	rf_names_done(&load->names);
}
