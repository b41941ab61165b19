/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warnings about patterns, see lint.h. It is verdicts that are looked at, not spellings:
 * a wide allow with the denies that it needs behind it is no mistake.
 */
#include "policy/lint.h"

#include <errno.h>
#include <string.h>

#include "bpf/verdict.h"
#include "policy/image.h"
#include "policy/util.h"

struct lint {
	const struct rf_policy *policy;
	const void *image;
	struct rf_diags *diags;
	bool *told; /* by rule: one warning is enough */
};

/* Is the right given on the path, and by which rule is it decided? Not a path: neither. */
static bool given(const struct lint *lint, uint8_t right, const char *path, uint16_t *ret_rule)
{
	uint32_t state = rf_image_state(lint->image, path, strlen(path));
	struct rf_verdict v;

	*ret_rule = 0;
	if (!state)
		return false;
	rf_verdict_begin(&v, right);
	rf_verdict_add(&v, lint->image, RF_NO_MASK, state, 0, 0);
	rf_verdict_end(&v);
	*ret_rule = v.rule;
	return !v.missing;
}

/* What a rule is called, if it is one of the policy's own and has no warning yet; else NULL. */
static const char *untold(struct lint *lint, uint16_t rule)
{
	struct rf_image_rule text;

	if (!rf_image_rule(lint->image, rule, &text) || lint->told[rule] ||
	    strcmp(text.file, lint->policy->file) != 0)
		return NULL;
	lint->told[rule] = true;
	return text.text;
}

#define WARN(lint, rule, hint, ...)                                                                \
	rf_diag((lint)->diags, RF_WARNING, rf_policy_rule((lint)->policy, rule)->file,             \
		rf_policy_rule((lint)->policy, rule)->line,                                        \
		rf_policy_rule((lint)->policy, rule)->column, hint, __VA_ARGS__)

static char member_of(const struct rf_set *set)
{
	unsigned int byte = 1;

	if (rf_set_has(set, 'x'))
		return 'x';
	while (byte < 0xff && !rf_set_has(set, byte))
		byte++;
	return (char)byte;
}

uint16_t rf_lint_decider(const struct rf_policy *policy, const void *image, size_t n,
			 struct rf_text *path)
{
	const struct rf_path_rule *r = &policy->rules[n - 1];
	const struct rf_sequence *s = &r->pattern.sequences[0];
	const struct lint lint = {.policy = policy, .image = image};
	uint8_t right = r->head.sense.rights & -r->head.sense.rights;
	uint16_t rule;

	for (size_t i = 0; i < s->n; i++) {
		uint16_t atom = s->atoms[i];

		if (atom < 0x100)
			rf_text_byte(path, (char)atom);
		else if (atom == RF_ATOM_STAR)
			rf_text_byte(path, 'x');
		else if (atom >= RF_ATOM_SET)
			rf_text_byte(path, member_of(&policy->sets.items[atom - RF_ATOM_SET]));
	}
	if (!s->n)
		rf_text_byte(path, '/');
	if (path->failed)
		return 0;
	given(&lint, right, path->text, &rule);
	return rule;
}

/* What others execute: the user's next shell, an ssh login, every program. */
static int warn_executed(struct lint *lint)
{
	static const char *const executed[] = {
		"~/.bashrc",	"~/.profile",	      "~/.zshrc", "~/.ssh/authorized_keys",
		"/usr/bin/env", "/etc/ld.so.preload",
	};
	const struct rf_policy *policy = lint->policy;

	/* All of everything and nothing else: that says what it means. */
	if (policy->nrules == 1 && policy->rules[0].head.sense.rights == RF_ALL_RIGHTS)
		return 0;
	for (size_t i = 0; i < RF_COUNT(executed); i++) {
		bool home = *executed[i] == '~';
		_cleanup_text_ struct rf_text path = {0};
		const char *name;
		uint16_t rule;

		if (home && !policy->home)
			continue;
		if (home)
			rf_text_add(&path, policy->home, strlen(policy->home));
		rf_text_add(&path, executed[i] + home, strlen(executed[i] + home));
		if (path.failed)
			return -ENOMEM;
		if (!given(lint, RF_MODIFY, path.text, &rule) &&
		    !given(lint, RF_CREATE, path.text, &rule))
			continue;
		name = untold(lint, rule);
		if (name)
			WARN(lint, rule,
			     "allow less, or deny write on such files behind it, as the profile "
			     "workspace-write does",
			     "`%s` lets the session write %s, which is used outside of it", name,
			     executed[i]);
	}
	return 0;
}

static bool has_glob(const struct rf_pattern *pattern)
{
	for (size_t i = 0; i < pattern->n; i++)
		for (size_t k = 0; k < pattern->sequences[i].n; k++)
			if (pattern->sequences[i].atoms[k] >= 0x100)
				return true;
	return false;
}

/* A glob for keys that hits the certificates by which servers are known. */
static void warn_certificates(struct lint *lint)
{
	static const struct {
		const char *folder, *path;
	} certificates[] = {
		{"/etc/ssl/certs", "/etc/ssl/certs/ca-certificates.crt"},
		{"/etc/ssl", "/etc/ssl/cert.pem"},
		{"/etc/pki/tls/certs", "/etc/pki/tls/certs/ca-bundle.crt"},
		{"/usr/lib/python3/dist-packages/certifi",
		 "/usr/lib/python3/dist-packages/certifi/cacert.pem"},
	};

	for (size_t i = 0; i < RF_COUNT(certificates); i++) {
		const char *name;
		uint16_t rule, other;

		if (given(lint, RF_READ, certificates[i].path, &rule) || !rule ||
		    !given(lint, RF_READ, certificates[i].folder, &other) ||
		    !has_glob(&lint->policy->rules[rule - 1].pattern))
			continue;
		name = untold(lint, rule);
		if (name)
			WARN(lint, rule,
			     "deny keys where they lie, or allow read on the certificates behind "
			     "it, with `reopens: true`",
			     "`%s` hits certificates that programs need: %s", name,
			     certificates[i].path);
	}
}

/* A directory with all below it is the directory; all below it is what is seldom meant. */
static int warn_below(struct lint *lint)
{
	static const char below[] = "/**", probe[] = "/\001";

	for (size_t i = 0; i < lint->policy->nrules; i++) {
		const struct rf_path_rule *r = &lint->policy->rules[i];
		size_t n = strlen(r->head.written);
		struct rf_arena arena = {0};
		_cleanup_text_ struct rf_text child = {0};
		uint16_t rule, other;
		bool reads, lists;
		char *folder;

		if (!(r->head.sense.rights & RF_READ) || r->pattern.n != 1 || n < strlen(below) ||
		    strcmp(r->head.written + n - strlen(below), below) != 0)
			continue;
		folder = rf_sequence_literal(&r->pattern.sequences[0], &arena);
		if (folder) {
			if (strcmp(folder, "/") != 0)
				rf_text_add(&child, folder, strlen(folder));
			rf_text_add(&child, probe, strlen(probe));
		}
		if (!folder || child.failed) {
			rf_arena_done(&arena);
			return -ENOMEM;
		}
		reads = given(lint, RF_READ, child.text, &rule);
		lists = given(lint, RF_READ, folder, &other);
		if (reads != lists && rule == i + 1 && (lists || !other) && untold(lint, rule))
			WARN(lint, rule,
			     "without `/**` it covers the directory, too; write `/*` if it is "
			     "meant as it is",
			     "`%s` does not match %s itself, which %s", r->head.written, folder,
			     lists ? "can be listed" : "cannot be listed");
		rf_arena_done(&arena);
	}
	return 0;
}

int rf_lint_patterns(const struct rf_policy *policy, const void *image, struct rf_diags *diags)
{
	_cleanup_free_ bool *told = calloc(policy->nrules + 1, sizeof(*told));
	struct lint lint = {policy, image, diags, told};
	int r;

	if (!told)
		return -ENOMEM;
	r = warn_executed(&lint);
	if (!r)
		warn_certificates(&lint);
	return r ? r : warn_below(&lint);
}
