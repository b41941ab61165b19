/* SPDX-License-Identifier: BSD-2-Clause */
/* Variables of a policy: `vars`, and what the caller gives, see parse.h. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "policy/parse.h"

static struct rf_var *find(const struct rf_vars *vars, const char *name)
{
	struct rf_var *v;

	for (v = vars->first; v && strcmp(v->name, name) != 0; v = v->next)
		;
	return v;
}

static bool is_name(const char *name)
{
	if (!isalpha((unsigned char)*name) && *name != '_')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_')
			return false;
	return true;
}

static void add(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *value)
{
	struct rf_var *v;

	if (!strcmp(key->text, "WORKSPACE") || !strcmp(key->text, "HOME")) {
		RF_ERROR_AT(p, key, "choose another name", "`%s` is set at the start of a session",
			    key->text);
		return;
	}
	if (!is_name(key->text)) {
		RF_ERROR_AT(p, key, "letters, digits and underscore",
			    "\"%.60s\" is no name of a variable", key->text);
		return;
	}
	if (!rf_expect(p, value, RF_SCALAR, "a variable", "one value, as in `CACHE: ~/.cache`"))
		return;
	v = find(p->vars, key->text);
	if (!v && p->vars->n == RF_VARS_MAX) {
		RF_ERROR_AT(p, key, NULL, "more than %u variables", RF_VARS_MAX);
		p->vars->n++; /* say it once */
	}
	if (!v && p->vars->n > RF_VARS_MAX)
		return;
	if (!v) {
		p->vars->n++;
		v = rf_arena_alloc(&p->policy->arena, sizeof(*v));
		if (!v) {
			p->no_memory = true;
			return;
		}
		v->name = rf_parse_copy(p, key->text);
		v->next = p->vars->first;
		p->vars->first = v;
	}
	v->file = p->file;
	v->node = value;
}

void rf_vars_add(struct rf_parser *p, const struct rf_yaml *node)
{
	if (!rf_expect(p, node, RF_MAP, "`vars`", "as in `vars: { CACHE: ~/.cache }`"))
		return;
	for (const struct rf_yaml *key = node->first; key; key = rf_yaml_next_key(key))
		if (key->kind == RF_SCALAR)
			add(p, key, key->next);
}

static void work_out(struct rf_parser *p, struct rf_var *v)
{
	const struct rf_pattern_env env = {rf_vars_look_up, p};
	struct rf_pattern_error error;
	const char *file = p->file;
	char *value = NULL;
	int r;

	v->state = RF_VAR_BUSY;
	r = rf_value_parse(v->node->text, &env, &p->policy->arena, &value, &error);
	p->file = v->file;
	if (r == -EINVAL)
		rf_pattern_diag(p, v->node, &error);
	else if (r)
		p->no_memory = true;
	else
		v->value = value;
	p->file = file;
	v->state = RF_VAR_DONE;
}

static void hint_of_missing(struct rf_parser *p, const char *name, bool env,
			    struct rf_pattern_error *error)
{
	const char *names[RF_VARS_MAX + 2] = {"WORKSPACE", "HOME"}, *nearest;
	size_t n = 2;

	for (const struct rf_var *v = p->vars->first; v && n < RF_COUNT(names); v = v->next)
		names[n++] = v->name;
	nearest = rf_nearest(name, names, n);
	if (env)
		snprintf(error->hint, sizeof(error->hint), "set %s in the environment", name);
	else if (p->env->variable(p->env->userdata, name, true))
		snprintf(
			error->hint, sizeof(error->hint),
			"did you mean ${env:%s}, of the environment? Or give it with --var %s=VALUE",
			name, name);
	else if (nearest && *nearest == *name)
		snprintf(error->hint, sizeof(error->hint),
			 "did you mean %s? Else give it with --var %s=VALUE, or in `vars`", nearest,
			 name);
	else
		snprintf(error->hint, sizeof(error->hint),
			 "give it with --var %s=VALUE, or in `vars`", name);
}

int rf_vars_look_up(void *parser, const char *name, bool env, const char **ret_value,
		    struct rf_pattern_error *error)
{
	struct rf_parser *p = parser;
	const char *value = p->env->variable(p->env->userdata, name, env);
	struct rf_var *v = value || env ? NULL : find(p->vars, name);

	if (v) {
		if (v->state == RF_VAR_BUSY) {
			snprintf(error->message, sizeof(error->message),
				 "the variable %s is defined by itself", name);
			snprintf(error->hint, sizeof(error->hint), "give it a value");
			return -ENOENT;
		}
		if (v->state == RF_VAR_NEW)
			work_out(p, v);
		/* An error of the definition was told there. */
		value = v->value ? v->value : "/";
	}
	if (value) {
		*ret_value = value;
		return 0;
	}
	snprintf(error->message, sizeof(error->message), "no value for %s%s", env ? "env:" : "",
		 name);
	hint_of_missing(p, name, env, error);
	return -ENOENT;
}

void rf_vars_resolve(struct rf_parser *p)
{
	for (struct rf_var *v = p->vars->first; v; v = v->next)
		if (v->state == RF_VAR_NEW && !p->env->variable(p->env->userdata, v->name, false))
			work_out(p, v);
}
