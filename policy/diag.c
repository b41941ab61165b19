/* SPDX-License-Identifier: BSD-2-Clause */
/* Diagnostics, see diag.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif
#include "policy/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/util.h"

__attribute__((format(printf, 4, 0))) static int
fill(struct rf_diag *d, const char *file, const char *hint, const char *format, va_list args)
{
	if (vasprintf(&d->message, format, args) < 0) {
		d->message = NULL;
		return -1;
	}
	if (file && !(d->file = strdup(file)))
		return -1;
	if (hint && !(d->hint = strdup(hint)))
		return -1;
	return 0;
}

static void clear(struct rf_diag *d)
{
	free(d->file);
	free(d->message);
	free(d->hint);
}

/* Make room for what matters more than a note. */
static void drop_note(struct rf_diags *diags)
{
	for (size_t i = diags->n; i-- > 0;) {
		if (diags->items[i].severity != RF_NOTE)
			continue;
		clear(&diags->items[i]);
		memmove(&diags->items[i], &diags->items[i + 1],
			(--diags->n - i) * sizeof(*diags->items));
		diags->omitted++;
		return;
	}
}

void rf_diag(struct rf_diags *diags, enum rf_severity severity, const char *file, unsigned int line,
	     unsigned int column, const char *hint, const char *format, ...)
{
	struct rf_diag d = {.severity = severity, .line = line, .column = column};
	struct rf_diag *items = NULL;
	va_list args;
	int r = -1;

	if (severity == RF_ERROR)
		diags->errors++;
	if (diags->n == RF_DIAGS_MAX && severity != RF_NOTE)
		drop_note(diags);
	if (diags->n < RF_DIAGS_MAX) {
		va_start(args, format);
		r = fill(&d, file, hint, format, args);
		va_end(args);
		if (!r)
			items = realloc(diags->items, (diags->n + 1) * sizeof(*items));
	}
	if (!items) {
		clear(&d);
		diags->omitted++;
		return;
	}
	diags->items = items;
	diags->items[diags->n++] = d;
}

static bool before(const struct rf_diag *a, const struct rf_diag *b)
{
	if (!a->file || !b->file || strcmp(a->file, b->file) != 0)
		return false;
	return a->line != b->line ? a->line < b->line : a->column < b->column;
}

void rf_diags_sort(struct rf_diags *diags, size_t from)
{
	for (size_t i = from + 1; i < diags->n; i++) {
		struct rf_diag d = diags->items[i];
		size_t j = i;

		for (; j > from && before(&d, &diags->items[j - 1]); j--)
			diags->items[j] = diags->items[j - 1];
		diags->items[j] = d;
	}
}

void rf_diags_move(struct rf_diags *to, struct rf_diags *from)
{
	to->omitted += from->omitted;
	to->errors += from->errors;
	for (size_t i = 0; i < from->n; i++) {
		const struct rf_diag *d = &from->items[i];

		to->errors -= d->severity == RF_ERROR; /* rf_diag() counts it */
		rf_diag(to, d->severity, d->file, d->line, d->column, d->hint, "%s", d->message);
	}
	rf_diags_done(from);
}

void rf_diags_done(struct rf_diags *diags)
{
	for (size_t i = 0; i < diags->n; i++)
		clear(&diags->items[i]);
	free(diags->items);
	memset(diags, 0, sizeof(*diags));
}

const char *rf_severity_name(enum rf_severity severity)
{
	switch (severity) {
	case RF_NOTE:
		return "note";
	case RF_WARNING:
		return "warning";
	case RF_ERROR:
		break;
	}
	return "error";
}

char *rf_diag_text(const struct rf_diag *d)
{
	char at[32] = "";
	char *text;

	if (d->line && d->column)
		snprintf(at, sizeof(at), "%u:%u:", d->line, d->column);
	else if (d->line)
		snprintf(at, sizeof(at), "%u:", d->line);
	if (asprintf(&text, "%s%s%s%s%s: %s%s%s%s", d->file ? d->file : "", d->file ? ":" : "", at,
		     d->file || *at ? " " : "", rf_severity_name(d->severity), d->message,
		     d->hint ? " (hint: " : "", d->hint ? d->hint : "", d->hint ? ")" : "") < 0)
		return NULL;
	return text;
}
