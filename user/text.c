/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes as text and back, see text.h. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/util.h"
#include "user/text.h"

/* The length of the valid UTF-8 sequence at `p` and its character, 0 if there is none. */
static size_t utf8(const unsigned char *p, size_t size, uint32_t *ret_char)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t c = p[0];
	size_t n;

	if (c < 0x80)
		n = 1;
	else if (c >= 0xc2 && c < 0xe0)
		n = 2, c &= 0x1f;
	else if (c >= 0xe0 && c < 0xf0)
		n = 3, c &= 0x0f;
	else if (c >= 0xf0 && c < 0xf5)
		n = 4, c &= 0x07;
	else
		return 0;
	if (n > size)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret_char = c;
	return n;
}

/* Does it move the cursor, break the line or turn the direction of writing? */
static bool controls(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static char *escape(const char *bytes, size_t size, bool backslash)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = (const unsigned char *)bytes;
	char *text, *to;

	if (size > (SIZE_MAX - 1) / 4)
		return NULL;
	to = text = malloc(size * 4 + 1);
	if (!text)
		return NULL;
	while (size) {
		uint32_t c = 0;
		size_t n = utf8(p, size, &c);

		if (n && c == '\\' && backslash) {
			*to++ = '\\';
			*to++ = '\\';
		} else if (n && !controls(c)) {
			memcpy(to, p, n);
			to += n;
		} else {
			n = n ? n : 1;
			for (size_t i = 0; i < n; i++) {
				*to++ = '\\';
				*to++ = 'x';
				*to++ = digits[p[i] >> 4];
				*to++ = digits[p[i] & 0xf];
			}
		}
		p += n;
		size -= n;
	}
	*to = 0;
	return text;
}

char *rf_escape(const char *bytes, size_t size)
{
	return escape(bytes, size, true);
}

char *rf_clean(const char *text)
{
	return escape(text, strlen(text), false);
}

char *rf_quote(const char *text)
{
	size_t n = strlen(text);
	bool plain = n && !strpbrk(text, " \"'") && !strstr(text, "...");
	char *quoted, *to;

	for (const char *c = text; *c; c++)
		plain = plain && (unsigned char)*c < 0x80;
	if (plain)
		return strdup(text);
	if (n > (SIZE_MAX - 3) / 2)
		return NULL;
	to = quoted = malloc(n * 2 + 3);
	if (!quoted)
		return NULL;
	*to++ = '"';
	for (; *text; text++) {
		if (*text == '"')
			*to++ = '\\';
		*to++ = *text;
	}
	*to++ = '"';
	*to = 0;
	return quoted;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int rf_unescape(const char *text, char **ret_bytes, size_t *ret_size)
{
	_cleanup_free_ char *bytes = malloc(strlen(text) + 1);
	size_t n = 0;

	if (!bytes)
		return -ENOMEM;
	while (*text) {
		int high, low;

		if (*text != '\\') {
			bytes[n++] = *text++;
			continue;
		}
		if (text[1] == '\\') {
			bytes[n++] = '\\';
			text += 2;
			continue;
		}
		if (text[1] != 'x' || (high = digit(text[2])) < 0 || (low = digit(text[3])) < 0)
			return -EINVAL;
		bytes[n++] = (char)(high << 4 | low);
		text += 4;
	}
	bytes[n] = 0;
	*ret_bytes = bytes;
	bytes = NULL;
	if (ret_size)
		*ret_size = n;
	return 0;
}

static bool octal(char c, char most)
{
	return c >= '0' && c <= most;
}

void rf_unescape_octal(char *text)
{
	char *to = text;

	while (*text) {
		if (text[0] == '\\' && octal(text[1], '3') && octal(text[2], '7') &&
		    octal(text[3], '7')) {
			*to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 |
				       (text[3] - '0'));
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = 0;
}
