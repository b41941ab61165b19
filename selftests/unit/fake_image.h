/* SPDX-License-Identifier: BSD-2-Clause */
/* A small image of a policy, made by hand. */
#ifndef RF_UNIT_FAKE_IMAGE_H
#define RF_UNIT_FAKE_IMAGE_H

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "bpf/abi.h"

/*
 * An image with a state for each length of a path up to eight bytes, so that names of
 * different lengths differ, and one rule.
 */
#define FAKE_RULE_FILE "p.yaml"
#define FAKE_RULE_TEXT "deny all ~/.ssh"

static void *fake_image(size_t *ret_size)
{
	static const char strings[] = FAKE_RULE_FILE "\0" FAKE_RULE_TEXT;
	const uint32_t states = 10, words = (sizeof(strings) + 7) / 8;
	const size_t all =
		sizeof(struct rf_image) / 8 + states + 1 + RF_ACCEPT_WORDS + RF_RULE_WORDS + words;
	__u64 *image = calloc(all, 8);
	struct rf_image *head = (struct rf_image *)image;
	struct rf_rule *rule;

	if (!image)
		abort();
	*head = (struct rf_image){
		.magic = RF_IMAGE_MAGIC,
		.version = RF_IMAGE_VERSION,
		.size = (uint32_t)(all * 8),
		.start = 1,
		.nstates = states,
		.ncells = 1,
		.naccepts = 1,
		.nrules = 1,
		.nstrings = sizeof(strings),
		.states = sizeof(*head) / 8,
	};
	head->cells = head->states + states;
	head->accepts = head->cells + 1;
	head->rules = head->accepts + RF_ACCEPT_WORDS;
	head->strings = head->rules + RF_RULE_WORDS;
	for (uint32_t i = 1; i < states; i++)
		image[head->states + i] = RF_STATE(0, i + 1 < states ? i + 1 : i, 0, 0);
	rule = (struct rf_rule *)(image + head->rules);
	*rule = (struct rf_rule){.file = 0, .line = 7, .text = sizeof(FAKE_RULE_FILE), .column = 3};
	memcpy(image + head->strings, strings, sizeof(strings));
	head->checksum = (uint32_t)crc32(0, (const Bytef *)image, (uInt)(all * 8));
	*ret_size = all * 8;
	return image;
}

#endif
