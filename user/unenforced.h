/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this version does not enforce yet: the one list of it. `run` names the
 * areas, `status` and the README print all of it. Whoever makes the kernel side
 * enforce an entry deletes it here.
 */
#ifndef RF_USER_UNENFORCED_H
#define RF_USER_UNENFORCED_H

struct rf_unenforced {
	const char *area; /* a word or two */
	const char *text; /* what a session can still do */
};

/* Ends with an entry of NULLs. */
extern const struct rf_unenforced rf_unenforced[];

#endif
