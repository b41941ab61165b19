/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzer: the image verifier, the checksum put right so that it gets further. What
 * it accepts is stepped through and read in every way.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "bpf/verdict.h"
#include "policy/image.h"
#include "policy/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct rf_image *h)
{
	const __u64 *image = (const __u64 *)h;
	uint8_t address[16];

	for (uint32_t state = 1; state < h->nstates && state < 200; state++) {
		struct rf_verdict v;

		for (unsigned int byte = 0; byte < 256; byte++) {
			uint32_t next = rf_step(image, RF_NO_MASK, state, byte);

			if (!next || next >= h->nstates)
				abort();
		}
		if (rf_state_flat(image, RF_NO_MASK, state)) {
			uint32_t below = rf_step(image, RF_NO_MASK, state, '/');

			for (unsigned int byte = 0; byte < 256; byte++)
				if (rf_step(image, RF_NO_MASK, below, byte) != below)
					abort();
		}
		rf_verdict_begin(&v, RF_ALL_RIGHTS);
		rf_verdict_add(&v, image, RF_NO_MASK, state, 0, 0);
		rf_verdict_end(&v);
		if (v.rule > h->nrules)
			abort();
	}
	for (unsigned int i = 0; i < 200; i++) {
		for (unsigned int k = 0; k < sizeof(address); k++)
			address[k] = i * 37 + k * (i % 5);
		if (RF_PORT_RULE(rf_net_find(image, RF_NO_MASK, address, i % 2, i * 331)) >
		    h->nrules)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *out;
	struct rf_diags diags = {0};
	struct rf_image_rule rule;
	struct rf_image *image;

	if (!out)
		out = fopen("/dev/null", "we");
	image = calloc(1, size ? size : 1);
	if (!image)
		abort();
	if (size)
		memcpy(image, data, size);
	if (size >= sizeof(*image)) {
		image->size = size;
		image->checksum = 0;
		image->checksum = crc32(0, (const Bytef *)image, size);
	}
	if (!rf_image_verify(image, size, &diags)) {
		walk(image);
		for (uint32_t n = 0; n <= image->nrules + 1; n++)
			if (rf_image_rule(image, n, &rule) &&
			    strlen(rule.file) + strlen(rule.text) > 2 * size)
				abort();
		rf_image_state(image, "/a/b", 4);
		rf_print_image(image, out);
	} else if (!diags.errors) {
		abort();
	}
	rf_diags_done(&diags);
	free(image);
	return 0;
}
