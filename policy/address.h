/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets of network rules: ADDRESS[/PREFIX][:PORTS][/PROTOCOL]. An address is 16
 * bytes; IPv4 is ::ffff:a.b.c.d, so that each spelling of an address is the same.
 */
#ifndef RF_POLICY_ADDRESS_H
#define RF_POLICY_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/pattern.h"
#include "policy/util.h"

#define RF_TCP 0x1
#define RF_UDP 0x2

struct rf_target {
	uint8_t address[16];
	uint8_t prefix; /* bits of the 16 bytes; 0 is every address */
	uint8_t protocols;
	uint16_t first, last; /* ports */
};

/*
 * 0 with *ret_target; -EINVAL with *error, also for what is no address (a domain,
 * `session`).
 */
int rf_target_parse(const char *text, struct rf_target *ret_target, struct rf_pattern_error *error);

/* 0.0.0.0 or ::, and no other address: as a destination any address of this host. */
bool rf_target_is_any(const struct rf_target *target);

/* "10.0.0.0/8:443/tcp" */
void rf_target_text(const struct rf_target *target, struct rf_text *text);

#endif
