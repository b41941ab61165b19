/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * YAML text as a tree of positioned nodes, built from libyaml's events. Knows
 * YAML and its dangers (aliases, duplicate keys, depth, size), nothing of
 * policies.
 */
#ifndef RF_POLICY_TREE_H
#define RF_POLICY_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/diag.h"
#include "policy/util.h"

#define RF_TEXT_MAX (1u << 20) /* bytes of one policy file */
#define RF_DEPTH_MAX 16
#define RF_NODES_MAX 200000

enum rf_kind { RF_SCALAR, RF_LIST, RF_MAP };

struct rf_yaml {
	enum rf_kind kind;
	bool plain; /* scalar without quotes, list with dashes */
	bool exact; /* the scalar's bytes stand in the file as they are here */
	unsigned int line, column;
	char *text; /* scalar, NUL-terminated, holds no other NUL */
	struct rf_yaml *first, *next; /* members in order; in a map key, value, key, value */
	struct rf_yaml *last;
};

/* The keys of a map: each is followed by its value. */
static inline const struct rf_yaml *rf_yaml_next_key(const struct rf_yaml *key)
{
	return key->next ? key->next->next : NULL;
}

/*
 * 0 with *ret_root, which lives in `arena`: there may be errors in `diags` even
 * so (keys given twice, keys that are no words), so that the caller can go on
 * and report all. -EINVAL with an error where there is no tree, -ENOMEM.
 */
int rf_yaml_parse(const char *file, const char *text, size_t size, struct rf_arena *arena,
		  struct rf_diags *diags, struct rf_yaml **ret_root);

/* Line and column of byte `at` of a scalar, as near as the quoting lets one know. */
unsigned int rf_yaml_column(const struct rf_yaml *scalar, size_t at);

#endif
