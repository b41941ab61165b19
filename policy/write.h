/* SPDX-License-Identifier: BSD-2-Clause */
/* Image writer: automaton, rules and strings to bytes. */
#ifndef RF_POLICY_WRITE_H
#define RF_POLICY_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/dfa.h"
#include "policy/diag.h"
#include "policy/net.h"

struct rf_write_rule {
	const char *file;
	unsigned int line, column;
	const char *text; /* the same pointer as the rule's before: stored once */
	bool group; /* RF_RULE_GROUP */
};

struct rf_write {
	const struct rf_dfa *dfa;
	struct rf_winners_table *winners; /* outcomes with audited rules are added */
	const struct rf_net *net;
	const struct rf_rule_sense *senses;
	const struct rf_write_rule *rules;
	size_t nrules;
	uint8_t detached;
};

/* 0; -E2BIG with an error in `diags` that names `file`; -ENOMEM. */
int rf_image_write(const struct rf_write *write, const char *file, struct rf_diags *diags,
		   void **ret_image, size_t *ret_size);

#endif
