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

/* The object with nothing but one right; that of a connection as it is. */
static struct rf_object with_right(const struct rf_object *object, uint8_t right)
{
	struct rf_object one = *object;

	if (object->rights)
		one.rights = right;
	return one;
}

/* Set the runner-up of all that rule number `rule` decides. */
static int find_runners_up(const struct rf_policy *policy, const struct rf_object *object,
			   const struct rf_image_rule *text, uint16_t rule,
			   struct rf_explained *explained, size_t n)
{
	_cleanup_free_ void *image = NULL;
	struct rf_diags diags = {0};
	size_t size;
	int r;

	r = rf_policy_compile_without(policy, rule, text->group, &diags, &image, &size);
	rf_diags_done(&diags);
	for (size_t i = 0; !r && i < n; i++) {
		struct rf_object one = with_right(object, explained[i].rights);
		struct rf_explanation e;

		if (explained[i].verdict.rule != rule)
			continue;
		r = rf_explain_object(image, &one, &e);
		if (!r)
			explained[i].runner_up = e.verdict.rule;
	}
	return r;
}

static bool same_said(const struct rf_explained *a, const struct rf_explained *b)
{
	const struct rf_verdict *x = &a->verdict, *y = &b->verdict;
	uint8_t audited = rf_verdict_audited(x);

	return !x->missing == !y->missing && x->rule == y->rule && a->runner_up == b->runner_up &&
	       audited == rf_verdict_audited(y) && (!audited || x->audited_rule == y->audited_rule);
}

int rf_explain_rights(const struct rf_policy *policy, const void *image,
		      const struct rf_object *object, struct rf_explained ret_explained[RF_RIGHTS],
		      size_t *ret_n)
{
	uint8_t rights = object->rights ? object->rights : RF_NET_CONNECT;
	struct rf_explained all[RF_RIGHTS];
	size_t n = 0, kept = 0;
	int r = 0;

	for (unsigned int i = 0; !r && i < RF_RIGHTS; i++) {
		struct rf_object one = with_right(object, 1u << i);
		struct rf_explanation e;

		if (!(rights & 1u << i))
			continue;
		r = rf_explain_object(image, &one, &e);
		if (!r)
			all[n++] = (struct rf_explained){e.verdict, 0, 1u << i};
	}
	for (size_t i = 0; !r && policy && i < n; i++) {
		uint16_t rule = all[i].verdict.rule;
		struct rf_image_rule text;
		size_t first = 0;

		while (all[first].verdict.rule != rule)
			first++;
		if (first == i && rf_image_rule(image, rule, &text))
			r = find_runners_up(policy, object, &text, rule, all, n);
	}
	if (r)
		return r;
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < kept && !same_said(&ret_explained[k], &all[i]))
			k++;
		if (k < kept)
			ret_explained[k].rights |= all[i].rights;
		else
			ret_explained[kept++] = all[i];
	}
	*ret_n = kept;
	return 0;
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
