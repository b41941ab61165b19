/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Can this kernel enforce? Features are probed, versions are never compared. What
 * `ringfence doctor` reports and what the daemon refuses to start without is one list.
 */
#ifndef RF_USER_PROBE_H
#define RF_USER_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/diag.h"

/* How a requirement is met. */
enum rf_finding_status {
	RF_FINDING_OK,
	RF_FINDING_WARNING, /* not known, or something is lost without it */
	RF_FINDING_FAILURE, /* nothing can be enforced */
};

struct rf_finding {
	const char *name; /* a short word, static */
	enum rf_finding_status status;
	bool kernel; /* of a failure: the kernel, as it was booted and set up, cannot enforce */
	char *text; /* what was found */
	char *fix; /* what to do, exactly; NULL: nothing */
};

/* Zero-initialise; release with rf_findings_done(). */
struct rf_findings {
	struct rf_finding *items;
	size_t n, capacity;
	bool failed; /* no memory: some are missing */
};

/* Add one; `fix` (NULL: none) is taken over. */
__attribute__((format(printf, 6, 7))) void
rf_finding_add(struct rf_findings *findings, const char *name, enum rf_finding_status status,
	       bool kernel, char *fix, const char *format, ...);
void rf_findings_done(struct rf_findings *findings);
const char *rf_finding_status_name(enum rf_finding_status status); /* "ok", "warning", ... */

/*
 * Look at each requirement and change nothing. `root` goes before the path of each file
 * that is read: "" but for tests. -ENOMEM, else 0 whatever was found.
 */
int rf_probe_look(const char *root, struct rf_findings *findings);

/*
 * How to get `parameter` ("lsm=a,b,bpf") onto the kernel's command line with the boot
 * loader of this distribution; what it replaces there is gone. malloc'ed; NULL on no memory.
 */
char *rf_probe_boot_fix(const char *root, const char *parameter);

/*
 * 0, or -EOPNOTSUPP with one error for each requirement that is not met, and how to meet
 * it. What only shows when the programs run is checked after they are attached.
 */
int rf_probe(struct rf_diags *diags);

#endif
