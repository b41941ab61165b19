/* SPDX-License-Identifier: BSD-2-Clause */
/* How the live tests write a path for a program that reads acts line by line: lib.Actor.act(). */
#ifndef RF_LIVE_UNESCAPE_H
#define RF_LIVE_UNESCAPE_H

#include <stdio.h>

/* Each \xNN becomes the byte, in place. */
static void unescape(char *text)
{
	char *to = text;
	unsigned int byte;

	while (*text) {
		if (text[0] == '\\' && text[1] == 'x' && sscanf(text + 2, "%2x", &byte) == 1) {
			*to++ = (char)byte;
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

#endif
