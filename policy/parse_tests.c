/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys `tests` and `limits`, see parse.h. */
#include <errno.h>
#include <string.h>

#include "policy/object.h"
#include "policy/parse.h"

struct item {
	const struct rf_yaml *op, *path, *to, *expect;
};

#define KEY(name)                                                                                  \
	static void take_##name(struct rf_parser *p, const struct rf_yaml *key,                    \
				const struct rf_yaml *node, void *item)                            \
	{                                                                                          \
		(void)key;                                                                         \
		if (rf_expect(p, node, RF_SCALAR, "`" #name "`", NULL))                            \
			((struct item *)item)->name = node;                                        \
	}
KEY(op)
KEY(path)
KEY(to)
KEY(expect)

/* The object of a test: in a path variables are replaced, and nothing is a glob. */
static int parse_object(struct rf_parser *p, const struct item *item, struct rf_object *ret_object)
{
	const struct rf_pattern_env env = {rf_vars_look_up, p};
	const struct rf_yaml *node = item->path ? item->path : item->to;
	struct rf_pattern_error error;
	char *value = node->text;
	int r = 0;

	if (item->path)
		r = rf_value_parse(node->text, &env, &p->policy->arena, &value, &error);
	if (!r)
		r = rf_object_parse(item->op->text, value, &p->policy->arena, ret_object, &error);
	if (r == -EINVAL) {
		if (error.at == RF_OBJECT_OP) {
			node = item->op;
			error.at = 0;
		}
		rf_pattern_diag(p, node, &error);
	}
	if (r == -ENOMEM)
		p->no_memory = true;
	return r;
}

static void parse_test(struct rf_parser *p, const struct rf_yaml *node)
{
	static const struct rf_key keys[] = {
		{"op", take_op}, {"path", take_path}, {"to", take_to}, {"expect", take_expect}};
	static const char *const outcomes[] = {"allow", "deny"};
	struct rf_policy *policy = p->policy;
	size_t errors = p->diags->errors;
	struct item item = {0};
	struct rf_object object;
	struct rf_test test = {.line = node->line, .column = node->column};

	if (!rf_expect(p, node, RF_MAP, "a test", "as in `{ op: read, path: /x, expect: deny }`"))
		return;
	rf_parse_map(p, node, keys, RF_COUNT(keys), &item);
	if (p->diags->errors != errors)
		return;
	if (!item.op || !item.expect || !item.path == !item.to ||
	    (item.to && strcmp(item.op->text, "connect") != 0) ||
	    (item.path && !strcmp(item.op->text, "connect"))) {
		RF_ERROR_AT(p, node,
			    "`{ op: read, path: /x, expect: deny }` or `{ op: connect, to: "
			    "\"10.0.0.1:443\", expect: allow }`",
			    "a test needs `op`, `path` or `to`, and `expect`");
		return;
	}
	rf_parse_choice(p, item.expect, outcomes, "`expect`", &test.expect_deny);
	if (parse_object(p, &item, &object) || p->diags->errors != errors)
		return;
	test.op = rf_parse_copy(p, item.op->text);
	test.object = rf_parse_copy(p, item.path ? item.path->text : item.to->text);
	test.rights = object.rights;
	test.path = object.path;
	test.target = object.target;
	if (rf_grow(&policy->tests, &policy->tests_capacity, policy->ntests + 1,
		    sizeof(*policy->tests)))
		p->no_memory = true;
	else
		policy->tests[policy->ntests++] = test;
}

void rf_parse_tests(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		    void *userdata)
{
	(void)key;
	(void)userdata;
	if (!p->top) /* a parent's tests are about the parent alone */
		return;
	if (!rf_expect(p, node, RF_LIST, "`tests`",
		       "as in `tests: [{ op: read, path: /x, expect: deny }]`"))
		return;
	for (const struct rf_yaml *m = node->first; m; m = m->next)
		parse_test(p, m);
}

/*
 * A decimal number with up to three places, in thousandths, from `least` to `most`;
 * *ret_rest is what follows it.
 */
static bool decimal(const char *text, uint64_t least, uint64_t most, uint64_t *ret_n,
		    const char **ret_rest)
{
	uint64_t n = 0, place = 1000;
	const char *c = text;

	for (; *c >= '0' && *c <= '9'; c++) {
		n = n * 10 + 1000 * (uint64_t)(*c - '0');
		if (n > most)
			return false;
	}
	if (c == text)
		return false;
	if (*c == '.') {
		for (c++; *c >= '0' && *c <= '9' && place > 1; c++) {
			place /= 10;
			n += place * (uint64_t)(*c - '0');
		}
		if (c[-1] == '.')
			return false;
	}
	if (n < least || n > most)
		return false;
	*ret_n = n;
	*ret_rest = c;
	return true;
}

static struct rf_position place(const struct rf_parser *p, const struct rf_yaml *key)
{
	return (struct rf_position){p->file, key->line, key->column};
}

static void parse_memory(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
			 void *userdata)
{
	static const char units[] = "KMGT";
	uint64_t n, unit = 1;
	const char *rest, *u;

	(void)userdata;
	if (!rf_expect(p, node, RF_SCALAR, "`memory`", "as in 512M or 4G"))
		return;
	if (decimal(node->text, 1, UINT64_C(1) << 60, &n, &rest)) {
		u = *rest ? strchr(units, *rest) : NULL;
		for (int i = 0; u && i <= u - units; i++)
			unit *= 1024;
		if ((!*rest || (u && !rest[1])) && n <= UINT64_MAX / unit &&
		    n * unit / 1000 >= 1u << 20) {
			p->policy->limits.memory = n * unit / 1000;
			p->policy->limits.memory_at = place(p, key);
			return;
		}
	}
	RF_ERROR_AT(p, node, "as in 512M or 4G, at least 1M", "\"%.40s\" is no amount of memory",
		    node->text);
}

static void parse_tasks(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
			void *userdata)
{
	uint64_t n;
	const char *rest;

	(void)userdata;
	if (!rf_expect(p, node, RF_SCALAR, "`tasks`", "as in 512"))
		return;
	if (!decimal(node->text, 1000, UINT64_C(4194304000), &n, &rest) || *rest || n % 1000) {
		RF_ERROR_AT(p, node, "from 1 to 4194304", "\"%.40s\" is no number of tasks",
			    node->text);
		return;
	}
	p->policy->limits.tasks = n / 1000;
	p->policy->limits.tasks_at = place(p, key);
}

static void parse_cpu(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		      void *userdata)
{
	uint64_t n;
	const char *rest;

	(void)userdata;
	if (!rf_expect(p, node, RF_SCALAR, "`cpu`", "as in 1.5"))
		return;
	if (!decimal(node->text, 10, 4096000, &n, &rest) || *rest) {
		RF_ERROR_AT(p, node, "processors, from 0.01 to 4096, as in 1.5",
			    "\"%.40s\" is no share of processors", node->text);
		return;
	}
	p->policy->limits.cpu = n;
	p->policy->limits.cpu_at = place(p, key);
}

void rf_parse_limits(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		     void *userdata)
{
	static const struct rf_key keys[] = {
		{"memory", parse_memory}, {"tasks", parse_tasks}, {"cpu", parse_cpu}};

	(void)userdata;
	rf_parse_need(p, key, RF_FEATURE_LIMITS);
	if (rf_expect(p, node, RF_MAP, "`limits`", "as in `limits: { memory: 4G, tasks: 512 }`"))
		rf_parse_map(p, node, keys, RF_COUNT(keys), NULL);
}
