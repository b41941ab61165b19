/* SPDX-License-Identifier: BSD-2-Clause */
/* How the commands print: messages, diagnostics, JSON, tables. */
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "user/text.h"

/* Names of files and arguments may hold anything; a terminal must not obey it. */
void print_clean(const char *text, FILE *to)
{
	_cleanup_free_ char *clean = rf_clean(text);

	fputs(clean ? clean : "no memory", to);
}

__attribute__((format(printf, 2, 0))) static void vsay(const char *prefix, const char *format,
						       va_list arguments)
{
	_cleanup_free_ char *text = NULL;

	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	fprintf(stderr, "ringfence%s%s: ", *prefix ? " " : "", prefix);
	print_clean(text ? text : "no memory", stderr);
	putc('\n', stderr);
}

void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsay("", format, arguments);
	va_end(arguments);
}

int command_misused(const struct command *command, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsay(command->name, format, arguments);
	va_end(arguments);
	fprintf(stderr, "Try: ringfence %s --help\n", command->name);
	return command->usage_exit ? command->usage_exit : EXIT_USAGE;
}

void print_diags(const struct rf_diags *diags, enum rf_severity least)
{
	size_t errors = 0;

	for (size_t i = 0; i < diags->n; i++) {
		const struct rf_diag *d = &diags->items[i];
		_cleanup_free_ char *text = rf_diag_text(d);

		errors += d->severity == RF_ERROR;
		if (d->severity < least)
			continue;
		if (!d->file)
			fputs("ringfence: ", stderr);
		print_clean(text ? text : "no memory", stderr);
		putc('\n', stderr);
	}
	if (diags->omitted && (least == RF_NOTE || diags->errors > errors))
		say("%zu more messages are not shown", diags->omitted);
}

/* Bytes that are not UTF-8 cannot be in JSON: they are escaped. */
static json_t *text_or_null(const char *text)
{
	_cleanup_free_ char *clean = NULL;
	json_t *value = text ? json_string(text) : NULL;

	if (text && !value)
		clean = rf_clean(text);
	if (clean)
		value = json_string(clean);
	return value ? value : json_null();
}

json_t *json_diags(const struct rf_diags *diags)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < diags->n; i++) {
		const struct rf_diag *d = &diags->items[i];
		json_t *one =
			json_pack("{s:s, s:o, s:i, s:i, s:o, s:o}", "severity",
				  rf_severity_name(d->severity), "file", text_or_null(d->file),
				  "line", (int)d->line, "column", (int)d->column, "message",
				  text_or_null(d->message), "hint", text_or_null(d->hint));

		if (!one || json_array_append_new(array, one) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

int print_json(json_t *value, bool indent)
{
	int r = value ? json_dumpf(value, stdout, indent ? JSON_INDENT(2) : JSON_COMPACT) : -1;

	json_decref(value);
	if (r < 0) {
		say("cannot write JSON");
		return EXIT_FAILED;
	}
	putchar('\n');
	return EXIT_OK;
}

const char *json_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

long long json_number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

bool use_colour(FILE *to)
{
	const char *no = getenv("NO_COLOR");

	return (!no || !*no) && isatty(fileno(to));
}

/* ---- tables -------------------------------------------------------------- */

void table_row(struct table *table, const char *const cells[])
{
	if (rf_grow(&table->cells, &table->capacity, table->n + table->columns,
		    sizeof(*table->cells)) < 0) {
		table->failed = true;
		return;
	}
	for (unsigned int i = 0; i < table->columns; i++) {
		char *copy = rf_clean(cells[i]);

		if (!copy)
			table->failed = true;
		table->cells[table->n++] = copy;
	}
}

/* Columns on a terminal, near enough: characters, not bytes. */
static int width(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

int table_print(const struct table *table, FILE *to, const char *indent)
{
	int widths[TABLE_COLUMNS] = {0};

	if (table->failed) {
		say("no memory");
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < table->n; i++) {
		int *most = &widths[i % table->columns], w = width(table->cells[i]);

		if (w > *most)
			*most = w;
	}
	for (size_t i = 0; i < table->n; i++) {
		unsigned int column = (unsigned int)(i % table->columns);

		if (column == 0)
			fputs(indent, to);
		fputs(table->cells[i], to);
		if (column + 1 == table->columns)
			putc('\n', to);
		else
			fprintf(to, "%*s", widths[column] - width(table->cells[i]) + 2, "");
	}
	return EXIT_OK;
}

void table_done(struct table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->cells[i]);
	free(table->cells);
}
