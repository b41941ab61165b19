/* SPDX-License-Identifier: BSD-2-Clause */
/* What a compiled policy says to an act, see explain.h. */
#include "policy/explain.h"

#include <errno.h>
#include <string.h>

#include "policy/rules.h"

int rf_explain(const void *image, uint8_t want, const char *const *paths, size_t npaths,
	       struct rf_explanation *ret_explanation)
{
	struct rf_explanation e = {0};

	rf_verdict_begin(&e.verdict, want);
	for (size_t i = 0; i < npaths; i++) {
		uint32_t state = rf_image_state(image, paths[i], strlen(paths[i]));

		if (!state)
			return -EINVAL;
		rf_verdict_add(&e.verdict, image, RF_NO_MASK, state, 0, i);
	}
	rf_verdict_end(&e.verdict);
	e.has_rule = rf_image_rule(image, e.verdict.rule, &e.rule);
	*ret_explanation = e;
	return 0;
}

int rf_explain_net(const void *image, const struct rf_target *target,
		   struct rf_explanation *ret_explanation)
{
	struct rf_explanation e = {0};

	rf_verdict_begin(&e.verdict, RF_NET_CONNECT);
	rf_verdict_net(&e.verdict, rf_net_find(image, RF_NO_MASK, target->address,
					       target->protocols == RF_UDP, target->first));
	e.has_rule = rf_image_rule(image, e.verdict.rule, &e.rule);
	*ret_explanation = e;
	return 0;
}

int rf_explain_object(const void *image, const struct rf_object *object,
		      struct rf_explanation *ret_explanation)
{
	const char *path = object->path;

	if (!object->rights)
		return rf_explain_net(image, &object->target, ret_explanation);
	return rf_explain(image, object->rights, &path, 1, ret_explanation);
}

int rf_explain_runner_up(const struct rf_policy *policy, const struct rf_object *object,
			 const struct rf_explanation *explanation, uint32_t *ret_rule)
{
	_cleanup_free_ void *image = NULL;
	struct rf_diags diags = {0};
	struct rf_explanation other;
	size_t size;
	int r;

	if (!explanation->verdict.rule) {
		*ret_rule = 0;
		return 0;
	}
	r = rf_policy_compile_without(policy, explanation->verdict.rule, &diags, &image, &size);
	rf_diags_done(&diags);
	if (!r)
		r = rf_explain_object(image, object, &other);
	if (!r)
		*ret_rule = other.verdict.rule;
	return r;
}

/* Every right that was asked for is missing, or none is. */
static const char *outcome(const struct rf_verdict *v)
{
	return !v->missing ? "allow" : v->missing == v->want ? "deny" : "partly";
}

int rf_policy_test(const struct rf_policy *policy, const void *image, struct rf_diags *diags,
		   size_t *ret_n)
{
	size_t failed = 0;

	for (size_t i = 0; i < policy->ntests; i++) {
		const struct rf_test *t = &policy->tests[i];
		const struct rf_object object = {t->rights, (char *)t->path, t->target};
		struct rf_explanation e;
		char why[400] = "no rule matches";
		int r;

		r = rf_explain_object(image, &object, &e);
		if (r)
			return r;
		if (e.verdict.missing == (t->expect_deny ? e.verdict.want : 0))
			continue;
		if (e.has_rule)
			snprintf(why, sizeof(why), "by `%s` (%s:%u)", e.rule.text, e.rule.file,
				 e.rule.line);
		rf_diag(diags, RF_ERROR, policy->file, t->line, t->column, NULL,
			"test failed: %s %s is expected to be %s, it is %s, %s", t->op, t->object,
			t->expect_deny ? "deny" : "allow", outcome(&e.verdict), why);
		failed++;
	}
	if (failed)
		return -EINVAL;
	*ret_n = policy->ntests;
	return 0;
}
