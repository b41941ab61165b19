/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the parser share. Not for users of the library. */
#ifndef RF_POLICY_PARSE_H
#define RF_POLICY_PARSE_H

#include "policy/rules.h"
#include "policy/tree.h"

struct rf_vars;

struct rf_parser {
	const char *file; /* of the text that is being parsed */
	bool top; /* it is the policy itself, not a parent */
	const struct rf_policy_env *env;
	struct rf_vars *vars;
	struct rf_policy *policy;
	struct rf_diags *diags;
	bool no_memory;
	bool full; /* a limit of the policy was passed and told */
};

/* A key of a map. An error is noted in p->diags, and parsing goes on. */
struct rf_key {
	const char *name;
	/* NULL: part of the language, not of this version of ringfence */
	void (*parse)(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *value,
		      void *userdata);
};

#define RF_ERROR_AT(p, node, hint, ...)                                                            \
	rf_diag((p)->diags, RF_ERROR, (p)->file, (node)->line, (node)->column, hint, __VA_ARGS__)

/* Is the node of this kind? If not it is an error about `what`. */
bool rf_expect(struct rf_parser *p, const struct rf_yaml *node, enum rf_kind kind, const char *what,
	       const char *hint);
/* Call each key's function; unknown and unsupported keys are errors. */
void rf_parse_map(struct rf_parser *p, const struct rf_yaml *map, const struct rf_key *keys,
		  size_t n, void *userdata);
/* One word out of two: is it the second? */
void rf_parse_choice(struct rf_parser *p, const struct rf_yaml *node, const char *const names[2],
		     const char *what, bool *ret_second);
/* One word out of some: its index, or n with an error. */
size_t rf_parse_word(struct rf_parser *p, const struct rf_yaml *node, const char *const *names,
		     size_t n, const char *what);
/* The members of a list, or a single value in place of a list of one. */
const struct rf_yaml *rf_first_member(struct rf_parser *p, const struct rf_yaml *list,
				      const char *what);
const struct rf_yaml *rf_next_member(const struct rf_yaml *list, const struct rf_yaml *member);
/* A right or a list of rights, as a mask; *ret_written joins them with commas. */
uint8_t rf_parse_rights(struct rf_parser *p, const struct rf_yaml *node, const char *what,
			const char **ret_written);
/* In the policy's arena; NULL and p->no_memory where there is none. */
char *rf_parse_copy(struct rf_parser *p, const char *text);
/* An error in a pattern or value at `node`. */
void rf_pattern_diag(struct rf_parser *p, const struct rf_yaml *node,
		     const struct rf_pattern_error *error);
/* The policy needs a feature: an error unless the caller can enforce it. */
void rf_parse_need(struct rf_parser *p, const struct rf_yaml *key, enum rf_feature feature);

/* The keys of an item of `files` or `network` that stand for an action. */
struct rf_action_item {
	const struct rf_yaml *node; /* of the item */
	const struct rf_yaml *action; /* value of the action's key */
	const struct rf_yaml *objects; /* value of `paths` or `to` */
	struct rf_rule_sense sense;
	const char *rights; /* as written */
};

/* The values of a policy's top-level keys that have files of their own. */
void rf_parse_files(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		    void *userdata);
void rf_parse_network(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		      void *userdata);
void rf_parse_limits(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		     void *userdata);
void rf_parse_tests(struct rf_parser *p, const struct rf_yaml *key, const struct rf_yaml *node,
		    void *userdata);

/*
 * Variables. The caller's (--var, WORKSPACE, HOME) go before those of `vars`;
 * there a child's go before its parents'.
 */
struct rf_var {
	struct rf_var *next;
	const char *name, *file;
	const struct rf_yaml *node; /* the value as written */
	char *value; /* NULL: not known yet, or an error */
	enum { RF_VAR_NEW, RF_VAR_BUSY, RF_VAR_DONE } state;
};
#define RF_VARS_MAX 256 /* of a policy; a value is worked out through others */
struct rf_vars {
	struct rf_var *first;
	unsigned int n;
};
/* Take in `vars` of a file; a later call's values replace earlier ones. */
void rf_vars_add(struct rf_parser *p, const struct rf_yaml *node);
/* Work out all values; their errors are noted where they stand. */
void rf_vars_resolve(struct rf_parser *p);
/* For rf_pattern_env, with the parser as userdata. */
int rf_vars_look_up(void *parser, const char *name, bool env, const char **ret_value,
		    struct rf_pattern_error *error);

#endif
