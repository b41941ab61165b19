/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets of network rules, see address.h. */
#include "policy/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

__attribute__((format(printf, 4, 5))) static int fail(struct rf_pattern_error *error, size_t at,
						      const char *hint, const char *format, ...)
{
	va_list args;

	error->at = at;
	va_start(args, format);
	vsnprintf(error->message, sizeof(error->message), format, args);
	va_end(args);
	snprintf(error->hint, sizeof(error->hint), "%s", hint);
	return -EINVAL;
}

/* Digits at *at up to `most`; false for none or more. */
static bool number(const char **at, unsigned int most, unsigned int *ret_n)
{
	const char *p = *at;
	unsigned int n = 0;

	if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9'))
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + *p - '0';
		if (n > most)
			return false;
	}
	*at = p;
	*ret_n = n;
	return true;
}

/* ":443", "443", "443/tcp": a port alone? */
static bool is_port(const char *text)
{
	size_t n;

	text += *text == ':';
	n = strspn(text, "0123456789-");
	return n && (!text[n] || text[n] == '/');
}

/* The address itself: up to its end in *ret_end, with the bits that its family has. */
static int parse_host(const char *text, struct rf_target *t, const char **ret_end,
		      unsigned int *ret_bits, struct rf_pattern_error *error)
{
	bool brackets = *text == '[';
	const char *begin = text + brackets;
	size_t n = brackets ? strcspn(begin, "]") : strspn(begin, "0123456789.");
	char host[INET6_ADDRSTRLEN];

	if (*text == '*') {
		memset(t->address, 0, sizeof(t->address));
		*ret_bits = 0;
		*ret_end = text + 1;
		return 0;
	}
	if (brackets && begin[n] != ']')
		return fail(error, 0, "as in [2001:db8::]/32:443", "`[` without `]`");
	if (!brackets && strchr(text, ':') && strchr(strchr(text, ':') + 1, ':'))
		return fail(error, 0,
			    text[n] == ':' && memchr(text, '.', n)
				    ? "one port or one range behind the address: 10.0.0.1:443"
				    : "put an IPv6 address in brackets, and all in quotes: "
				      "\"[2001:db8::]/32:443\"",
			    "\"%.60s\" is not clear", text);
	if (n >= sizeof(host))
		return fail(error, 0, "as in 10.0.0.0/8 or [2001:db8::]/32", "not an address");
	memcpy(host, begin, n);
	host[n] = 0;
	if (brackets && inet_pton(AF_INET6, host, t->address) == 1) {
		*ret_bits = 128;
		*ret_end = begin + n + 1;
		return 0;
	}
	if (!brackets && inet_pton(AF_INET, host, t->address + 12) == 1) {
		memcpy(t->address, mapped, sizeof(mapped));
		*ret_bits = 32;
		*ret_end = begin + n;
		return 0;
	}
	return fail(error, 0,
		    is_port(text) ? "a port of every address is *:PORT, as in \"*:443\""
				  : "as in 10.0.0.0/8:443, [2001:db8::]/32 or *:443",
		    "\"%.60s\" is no address", text);
}

static int parse_prefix(const char *text, const char **at, unsigned int bits, struct rf_target *t,
			struct rf_pattern_error *error)
{
	const char *begin = *at;
	unsigned int prefix;

	t->prefix = bits == 32 ? 128 : bits;
	if (**at != '/' || (*at)[1] == 't' || (*at)[1] == 'u')
		return 0;
	(*at)++;
	if (!bits || !number(at, bits, &prefix)) {
		char hint[40];

		snprintf(hint, sizeof(hint), "a number from 0 to %u", bits);
		return fail(error, begin - text, bits ? hint : "* is every address already",
			    "bad prefix length");
	}
	t->prefix = 128 - bits + prefix;
	for (unsigned int bit = t->prefix; bit < 128; bit++) {
		if (!(t->address[bit / 8] & 0x80 >> bit % 8))
			continue;
		return fail(error, 0, "clear the bits behind the prefix, or write the one address",
			    "the address has bits behind its prefix of %u", prefix);
	}
	return 0;
}

static int parse_ports(const char *text, const char **at, struct rf_target *t,
		       struct rf_pattern_error *error)
{
	size_t begin = *at - text + 1;
	unsigned int first, last;

	t->first = 0;
	t->last = UINT16_MAX;
	if (**at != ':')
		return 0;
	(*at)++;
	if (!number(at, UINT16_MAX, &first))
		return fail(error, begin, "a number up to 65535, or a range as 8000-8999",
			    "bad port");
	last = first;
	if (**at == '-') {
		(*at)++;
		if (!number(at, UINT16_MAX, &last))
			return fail(error, begin, "a number up to 65535", "bad port");
		if (last < first)
			return fail(error, begin, "swap its ends", "a range that holds nothing");
	}
	t->first = first;
	t->last = last;
	return 0;
}

int rf_target_parse(const char *text, struct rf_target *ret_target, struct rf_pattern_error *error)
{
	struct rf_target t = {.protocols = RF_TCP | RF_UDP};
	unsigned int bits = 0;
	const char *at = text;
	int r;

	if (strstr(text, "://"))
		return fail(error, 0, "write the address and the port alone, as in 10.0.0.1:443",
			    "\"%.60s\" is a URL", text);
	r = parse_host(text, &t, &at, &bits, error);
	if (!r)
		r = parse_prefix(text, &at, bits, &t, error);
	if (!r)
		r = parse_ports(text, &at, &t, error);
	if (r)
		return r;
	if (!strcmp(at, "/tcp"))
		t.protocols = RF_TCP;
	else if (!strcmp(at, "/udp"))
		t.protocols = RF_UDP;
	else if (*at)
		return fail(error, at - text,
			    *at == '-' ? "addresses that belong together are a prefix, as in "
					 "10.0.0.0/24"
				       : "ADDRESS[/PREFIX][:PORTS][/tcp or /udp]",
			    "\"%.40s\" is not understood", at);
	*ret_target = t;
	return 0;
}

bool rf_target_is_any(const struct rf_target *t)
{
	static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff}, v6[16];

	return t->prefix == 128 &&
	       (!memcmp(t->address, v4, sizeof(v4)) || !memcmp(t->address, v6, sizeof(v6)));
}

void rf_target_text(const struct rf_target *t, struct rf_text *text)
{
	char host[INET6_ADDRSTRLEN], buffer[INET6_ADDRSTRLEN + 40];
	bool v4 = t->prefix >= 96 && !memcmp(t->address, mapped, sizeof(mapped));
	int n;

	if (v4)
		inet_ntop(AF_INET, t->address + 12, host, sizeof(host));
	else
		inet_ntop(AF_INET6, t->address, host, sizeof(host));
	if (!t->prefix)
		n = snprintf(buffer, sizeof(buffer), "*");
	else
		n = snprintf(buffer, sizeof(buffer), v4 ? "%s/%d" : "[%s]/%d", host,
			     v4 ? t->prefix - 96 : t->prefix);
	rf_text_add(text, buffer, n);
	if (t->first || t->last != UINT16_MAX) {
		n = snprintf(buffer, sizeof(buffer), t->first == t->last ? ":%u" : ":%u-%u",
			     t->first, t->last);
		rf_text_add(text, buffer, n);
	}
	if (t->protocols != (RF_TCP | RF_UDP))
		rf_text_add(text, t->protocols == RF_TCP ? "/tcp" : "/udp", 4);
}
