/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Diagnostics: what library code has to say to a person. Libraries fill them,
 * tools print them.
 */
#ifndef RF_POLICY_DIAG_H
#define RF_POLICY_DIAG_H

#include <stdbool.h>
#include <stddef.h>

enum rf_severity { RF_NOTE, RF_WARNING, RF_ERROR };

struct rf_diag {
	enum rf_severity severity;
	char *file; /* NULL: not about a file */
	unsigned int line, column; /* from 1; 0: not known */
	char *message;
	char *hint; /* what to do; NULL: none */
};

/* Zero-initialise; release with rf_diags_done(). Beyond RF_DIAGS_MAX they are only counted, notes first. */
#define RF_DIAGS_MAX 100
struct rf_diags {
	struct rf_diag *items;
	size_t n;
	size_t errors;
	size_t omitted;
};

/*
 * Add one. `hint` is copied as it is (NULL: none); the message is formatted.
 * Where memory is short it is counted in `omitted` and `errors` all the same.
 */
__attribute__((format(printf, 7, 8))) void rf_diag(struct rf_diags *diags,
						   enum rf_severity severity, const char *file,
						   unsigned int line, unsigned int column,
						   const char *hint, const char *format, ...);
/* Order those from number `from` on by position, within each file. */
void rf_diags_sort(struct rf_diags *diags, size_t from);
/* Add all of `from` to `to`; `from` is empty afterwards. */
void rf_diags_move(struct rf_diags *to, struct rf_diags *from);
void rf_diags_done(struct rf_diags *diags);
const char *rf_severity_name(enum rf_severity severity); /* "note", "warning", "error" */

/* "file:line:column: error: message (hint: ...)", malloc'ed; NULL on no memory. */
char *rf_diag_text(const struct rf_diag *diag);

#endif
