/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes as text. Names and arguments on Linux are bytes; JSON and terminals want
 * UTF-8 without control characters. Escaped text keeps valid UTF-8 as it is and
 * writes every other byte, control characters (C0, DEL, C1), line and paragraph
 * separators and marks of writing direction as \xNN and a backslash as \\, so that
 * the bytes can be recovered, one line stays one line, and a terminal shows the
 * characters in their order.
 */
#ifndef RF_USER_TEXT_H
#define RF_USER_TEXT_H

#include <stddef.h>

/* malloc'ed, NUL-terminated; NULL on no memory. */
char *rf_escape(const char *bytes, size_t size);
/* The same, but a backslash stays one: for text that is only to be read. */
char *rf_clean(const char *text);
/*
 * Escaped text as one word of a line: as it is, or, where it could be taken for more than
 * one word, or for other letters, in double quotes, with a quote in it written \".
 */
char *rf_quote(const char *text);
/* The reverse of rf_escape(): malloc'ed, NUL-terminated, *ret_size without the NUL (may be NULL). -EINVAL: not escaped text. */
int rf_unescape(const char *text, char **ret_bytes, size_t *ret_size);

/* /proc writes blanks, newlines and backslashes of paths as \ooo: undo it, in place. */
void rf_unescape_octal(char *text);

#endif
