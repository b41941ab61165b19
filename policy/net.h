/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules for the network as tables: a tree over the half bytes of an address
 * whose leaves say for each protocol and port which rule wins (bpf/abi.h).
 */
#ifndef RF_POLICY_NET_H
#define RF_POLICY_NET_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"
#include "policy/rules.h"

/* Port ranges times rules looked at, all leaves together: stops what would explode. */
#define RF_NET_WORK_MAX 100000000

struct rf_net {
	uint32_t root;
	uint32_t (*nodes)[2 * RF_NODE_WORDS];
	size_t nnodes, nodes_capacity;
	struct rf_leaf *leaves;
	size_t nleaves, leaves_capacity;
	struct rf_port *ports;
	size_t nports, ports_capacity;
};

/* What shows when a rule meets others, by index into policy->net; NULL: nothing. */
struct rf_net_lint {
	const struct rf_net_rule
		*reopened; /* of an allow without `reopens`: a deny that it takes something from */
	const struct rf_net_rule *beaten_by; /* one that decides where it would */
};

/*
 * 0 with *ret_net, empty for a policy without such rules; -E2BIG beyond a limit;
 * -ENOMEM. Rule number `without` is left out. `lint`, one for each rule, may be NULL.
 */
int rf_net_build(const struct rf_policy *policy, size_t without, struct rf_net_lint *lint,
		 struct rf_net *ret_net);
void rf_net_done(struct rf_net *net);

#endif
