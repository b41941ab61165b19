/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The policy language as a library: text in, image or diagnostics out. It does
 * no I/O and never prints; parents named by `extends` and variables come from
 * the caller. The language is described in policy/LANGUAGE.md, the image in
 * bpf/abi.h (struct rf_image).
 */
#ifndef RF_POLICY_POLICY_H
#define RF_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bpf/abi.h"
#include "policy/diag.h"

/* Parts of the language that need a kernel side, beyond deciding about files. */
enum rf_feature {
	RF_FEATURE_NETWORK, /* `network` */
	RF_FEATURE_AUDITED_RULES, /* `audit: true` on a rule */
	RF_FEATURE_LIMITS, /* `limits` */
	RF_FEATURES, /* count */
};

/* What a policy text may refer to. All pointers are borrowed during the call. */
struct rf_policy_env {
	/*
	 * Value of a variable (WORKSPACE, HOME for "~", or one given with
	 * --var), or with env true of ${env:name}; NULL if there is none. The
	 * value is literal, and a path value must be absolute.
	 */
	const char *(*variable)(void *userdata, const char *name, bool env);
	/*
	 * Find and read the policy that `name` in an `extends` of file `from`
	 * means. 0 with *ret_file (its path, for diagnostics) and *ret_text (both
	 * malloc'ed, owned by the callee's caller) and *ret_size, or -errno; -EEXIST:
	 * the project's folder and another have the name.
	 */
	int (*parent)(void *userdata, const char *name, const char *from, char **ret_file,
		      char **ret_text, size_t *ret_size);
	/* What to do where `parent` failed with -`error`, malloc'ed; NULL: nothing is known. May be NULL. */
	char *(*parent_hint)(void *userdata, const char *name, const char *from, int error);
	void *userdata;
	/*
	 * Features that the caller can enforce, bits 1 << enum rf_feature. A policy
	 * that needs another is an error that names the key: it is never ignored.
	 */
	unsigned int features;
};
#define RF_ALL_FEATURES ((1u << RF_FEATURES) - 1)

/* What a person is told about such a name, wherever it stands. */
#define RF_SHADOWED "the policy \"%s\" is in ./.ringfence and in another folder, too"

struct rf_policy; /* rules of a text and its parents, in order, with positions */

/*
 * Parse `size` bytes of `text`; `file` is its name in diagnostics. On failure
 * -EINVAL, with at least one error in `diags` (every error of the file, not the
 * first), or -ENOMEM. Warnings and notes may be added on success.
 */
int rf_policy_parse(const char *file, const char *text, size_t size,
		    const struct rf_policy_env *env, struct rf_diags *diags,
		    struct rf_policy **ret_policy);
void rf_policy_free(struct rf_policy *policy);

const char *rf_policy_name(const struct rf_policy *policy);
bool rf_policy_audit(const struct rf_policy *policy); /* mode: audit */
bool rf_policy_log_all(const struct rf_policy *policy); /* log: all */
/*
 * The column, from 1, of the dashes of the list `files` or `network` in the policy's own text; 0:
 * it has no such list, or one in brackets.
 */
unsigned int rf_policy_dashes(const struct rf_policy *policy, bool network);

/* Where a policy needs a feature; the strings belong to the policy. */
struct rf_need {
	enum rf_feature feature;
	const char *name; /* "network", "audit on a rule", ... */
	const char *file;
	unsigned int line, column;
};
size_t rf_policy_needs(const struct rf_policy *policy, const struct rf_need **ret_needs);

/* Where something stands; the string belongs to the policy. NULL: not known. */
struct rf_position {
	const char *file;
	unsigned int line, column;
};

/* `limits`; 0 where there is none. */
struct rf_limits {
	uint64_t memory; /* bytes */
	uint32_t tasks;
	uint32_t cpu; /* thousandths of one processor */
	struct rf_position memory_at, tasks_at, cpu_at;
};
const struct rf_limits *rf_policy_limits(const struct rf_policy *policy);

/*
 * Compile to an image (malloc'ed, *ret_size bytes, a multiple of 8). -EINVAL with
 * a diagnostic where a limit of the language or of the image is passed.
 */
int rf_policy_compile(const struct rf_policy *policy, struct rf_diags *diags, void **ret_image,
		      size_t *ret_size);

/*
 * The literal paths that the policy's rules begin with, up to the first
 * component with a glob, variables substituted, normalised ("/" alone or
 * "/a/b"), sorted, each once. The caller anchors them and their parents.
 */
size_t rf_policy_paths(const struct rf_policy *policy, const char *const **ret_paths);

/*
 * Run the policy's `tests` on its image. 0 with the number that ran in *ret_n, or
 * -EINVAL with an error in `diags` for each one that fails; -ENOMEM.
 */
int rf_policy_test(const struct rf_policy *policy, const void *image, struct rf_diags *diags,
		   size_t *ret_n);

#endif
