/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Images of compiled policies (struct rf_image in bpf/abi.h): verifier and
 * readers. All readers need an image that rf_image_verify() accepted; it is
 * 8-byte aligned.
 */
#ifndef RF_POLICY_IMAGE_H
#define RF_POLICY_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"
#include "policy/diag.h"

/*
 * Is this an image whose every index stays inside, so that the functions of
 * bpf/verdict.h are safe on it with RF_NO_MASK? `image` is untrusted. 0, or
 * -EINVAL with an error in `diags`; -ENOMEM.
 */
int rf_image_verify(const void *image, size_t size, struct rf_diags *diags);

/* Rule number n, from 1. False for 0 and beyond the last. Strings belong to the image. */
struct rf_image_rule {
	const char *file;
	unsigned int line, column;
	const char *text; /* as "deny all ~/.ssh" */
	bool group; /* it stands for several paths */
};
bool rf_image_rule(const void *image, uint32_t n, struct rf_image_rule *ret_rule);

/* The class whose maps can hold the image, -E2BIG if none can. */
int rf_image_class(size_t size);

/*
 * The automaton's state after `path`: "/" or "" for the root, else "/name/name",
 * without "//", "." or a slash at the end. 0 if the path is none of these.
 */
uint32_t rf_image_state(const void *image, const char *path, size_t size);

/*
 * Do two states say the same of their objects and of all below, whichever rules
 * they have it from? (Only of states below which nothing differs can it be said.)
 */
bool rf_image_same_effect(const void *image, uint32_t a, uint32_t b);

#endif
