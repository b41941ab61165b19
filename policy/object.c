/* SPDX-License-Identifier: BSD-2-Clause */
/* An act as people write it, see object.h. */
#include "policy/object.h"

#include <errno.h>
#include <string.h>

#include "policy/rules.h"

static int fail(struct rf_pattern_error *error, size_t at, const char *message, const char *hint)
{
	error->at = at;
	snprintf(error->message, sizeof(error->message), "%s", message);
	snprintf(error->hint, sizeof(error->hint), "%s", hint);
	return -EINVAL;
}

/* Without "//", "." and a slash at the end; ".." would need the file system. */
static int parse_path(const char *text, struct rf_arena *arena, char **ret_path,
		      struct rf_pattern_error *error)
{
	char *path;
	size_t n = 0;

	if (*text != '/')
		return fail(error, 0, "a relative path", "begin it with /");
	path = rf_arena_alloc(arena, strlen(text) + 2);
	if (!path)
		return -ENOMEM;
	for (const char *name = text; *name;) {
		size_t length;

		name += strspn(name, "/");
		length = strcspn(name, "/");
		if (length == 2 && name[0] == '.' && name[1] == '.')
			return fail(error, name - text, "`..` in a path", "write it without ..");
		if (length && (length != 1 || *name != '.')) {
			path[n++] = '/';
			memcpy(path + n, name, length);
			n += length;
		}
		name += length;
	}
	if (!n)
		path[n++] = '/';
	path[n] = 0;
	*ret_path = path;
	return 0;
}

/* The hint for what is no target: of those that rules may have, most are no single address. */
static void hint_of_target(const char *text, struct rf_pattern_error *error)
{
	static const char localhost[] = "localhost";
	struct rf_target target;
	struct rf_pattern_error ignored;
	char one[40];

	if (strstr(text, "://"))
		return;
	snprintf(error->hint, sizeof(error->hint), "as in 10.0.0.1:443 or [::1]:53/udp");
	if (strncmp(text, localhost, strlen(localhost)) != 0)
		return;
	text += strlen(localhost);
	snprintf(one, sizeof(one), "127.0.0.1%.20s", text);
	if (*text == ':' && !rf_target_parse(one, &target, &ignored) && target.first == target.last)
		snprintf(error->hint, sizeof(error->hint), "this host is %s or [::1]%.20s", one,
			 text);
	else
		snprintf(error->hint, sizeof(error->hint),
			 "this host is 127.0.0.1 or [::1], as in "
			 "127.0.0.1:8000");
}

static int parse_target(const char *text, struct rf_target *ret_target,
			struct rf_pattern_error *error)
{
	struct rf_target target;
	int r;

	r = rf_target_parse(text, &target, error);
	if (r) {
		hint_of_target(text, error);
		return r;
	}
	if (target.prefix != 128 || target.first != target.last)
		return fail(error, 0, "not one address and port",
			    "as in 10.0.0.1:443 or [::1]:53/udp");
	if (target.protocols == (RF_TCP | RF_UDP))
		target.protocols = RF_TCP;
	*ret_target = target;
	return 0;
}

/* "read", or several as events and policies write them: "read+modify", "read,modify". */
static uint8_t rights_of(const char *op)
{
	uint8_t rights = 0;

	for (;;) {
		size_t n = strcspn(op, "+,");
		char name[8];

		if (n >= sizeof(name))
			return 0;
		memcpy(name, op, n);
		name[n] = 0;
		if (!rf_right(name))
			return 0;
		rights |= rf_right(name);
		if (!op[n])
			return rights;
		op += n + 1;
	}
}

int rf_object_parse(const char *op, const char *object, struct rf_arena *arena,
		    struct rf_object *ret_object, struct rf_pattern_error *error)
{
	struct rf_object o = {.rights = rights_of(op)};
	int r;

	if (o.rights)
		r = parse_path(object, arena, &o.path, error);
	else if (!strcmp(op, "connect"))
		r = parse_target(object, &o.target, error);
	else
		r = fail(
			error, RF_OBJECT_OP, "unknown operation",
			!strcmp(op, "open")
				? "an open is judged by its rights: say read, modify or create, or several as "
				  "read+modify"
			: !strcmp(op, "send")
				? "a message is judged as connect"
				: rf_right_hint(op)
				?: "read, modify, create, delete, attr, exec, write, all or connect");
	if (!r)
		*ret_object = o;
	return r;
}
