/* SPDX-License-Identifier: BSD-2-Clause */
/* From the kernel's record to JSON and to a line of text. */
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/event.h"

#include "selftests/unit/fake_image.h"

static void *image;
static const char *anchor_name = "/home/me";

static const char *anchor(void *userdata, const struct rf_anchor_key *key, uint32_t name)
{
	(void)userdata;
	return key->ino == 42 && name == 1 ? anchor_name : NULL;
}

static struct rf_event sample(const char *path)
{
	struct rf_event event = {
		.session = 3,
		.policy = 9,
		.cgroup = 77,
		.pid = (uint32_t)getpid(),
		.tgid = (uint32_t)getpid(),
		.ns_pid = 5,
		.uid = 1000,
		.decision = RF_DENY,
		.op = RF_OP_OPEN,
		.reason = RF_REASON_RULE,
		.want = RF_READ | RF_MODIFY,
		.missing = RF_READ | RF_MODIFY,
		.rule = 1,
		.comm = "cat\n",
		.anchor = {.policy = 9, .ino = 42},
		.anchor_name = 1,
		.path_len = (uint32_t)strlen(path),
	};

	memcpy(event.path, path, event.path_len);
	event.exe_len = strlen("/usr/bin/cat");
	memcpy(event.exe + sizeof(event.exe) - event.exe_len, "/usr/bin/cat", event.exe_len);
	return event;
}

static json_t *json_of(const struct rf_event *event)
{
	const struct rf_event_context context = {
		.session = "p-00ff00",
		.policy = "p",
		.mode = "enforce",
		.image = image,
		.anchor = anchor,
		.seq = 12,
	};
	json_t *json = rf_event_json(event, &context);

	assert_non_null(json);
	return json;
}

static void text_is(const json_t *json, const char *key, const char *text)
{
	assert_string_equal(json_string_value(json_object_get(json, key)), text);
}

static void number_is(const json_t *json, const char *key, json_int_t n)
{
	assert_true(json_is_integer(json_object_get(json, key)));
	assert_int_equal(json_integer_value(json_object_get(json, key)), n);
}

static void all_fields(void **state)
{
	static const char *const order[] = {"time",    "seq", "session", "policy", "mode",
					    "verdict", "op",  "rights",	 "path",   "rule",
					    "reason",  "pid", "tgid",	 "ns_pid", "uid",
					    "comm",    "exe", "cgroup",	 "count"};
	struct rf_event event = sample("/.ssh/id\xff");
	_cleanup_json_ json_t *json = json_of(&event);
	const json_t *rule = json_object_get(json, "rule"), *value;
	const char *key;
	size_t i = 0;

	(void)state;
	json_object_foreach (json, key, value)
		assert_string_equal(key, order[i++]);
	assert_int_equal(i, RF_COUNT(order));
	number_is(json, "seq", 12);
	text_is(json, "session", "p-00ff00");
	text_is(json, "policy", "p");
	text_is(json, "mode", "enforce");
	text_is(json, "verdict", "deny");
	text_is(json, "op", "open");
	text_is(json, "path", "/home/me/.ssh/id\\xff");
	text_is(json, "reason", "rule");
	text_is(json, "comm", "cat\\x0a");
	number_is(json, "pid", getpid());
	number_is(json, "ns_pid", 5);
	number_is(json, "uid", 1000);
	number_is(json, "cgroup", 77);
	number_is(json, "count", 1);
	text_is(rule, "file", FAKE_RULE_FILE);
	text_is(rule, "text", FAKE_RULE_TEXT);
	number_is(rule, "line", 7);
	number_is(rule, "n", 1);
	assert_int_equal(json_array_size(json_object_get(json, "rights")), 2);
	assert_string_equal(json_string_value(json_array_get(json_object_get(json, "rights"), 1)),
			    "modify");
	text_is(json, "exe", "/usr/bin/cat");
}

static void object_is(const struct rf_event *event, const char *object, const char *addr)
{
	_cleanup_json_ json_t *json = json_of(event);
	_cleanup_free_ char *text = rf_event_object(json);
	const char *found = json_string_value(json_object_get(json, "addr"));

	assert_string_equal(text, object);
	assert_null(json_object_get(json, "path"));
	assert_string_equal(found ? found : "", addr);
	/* The right is said where a rule could give it. */
	assert_int_equal(json_array_size(json_object_get(json, "rights")), *addr ? 1 : 0);
}

static void network(void **state)
{
	struct rf_event event = sample("");
	_cleanup_json_ json_t *json = NULL, *odd = NULL;
	_cleanup_free_ char *text = NULL;

	(void)state;
	event.op = RF_OP_CONNECT;
	event.want = event.missing = RF_NET_CONNECT;
	event.family = 10;
	event.proto = 6;
	event.port = 443;
	memcpy(event.address, "\x20\x01\x0d\xb8", 4);
	event.address[15] = 1;
	object_is(&event, "[2001:db8::1]:443/tcp", "2001:db8::1");
	json = json_of(&event);
	number_is(json, "port", 443);
	text_is(json, "proto", "tcp");
	text_is(json_object_get(json, "rule"), "text", FAKE_RULE_TEXT);
	assert_string_equal(json_string_value(json_array_get(json_object_get(json, "rights"), 0)),
			    "connect");
	text = rf_event_text(json, false);
	assert_non_null(strstr(text, " deny connect [2001:db8::1]:443/tcp connect  p.yaml:7: "));

	/* An IPv4 address is one however it was written. */
	memset(event.address, 0, 10);
	memcpy(event.address + 10, "\xff\xff\x0a\x00\x00\x01", 6);
	event.op = RF_OP_SEND;
	event.proto = 17;
	event.port = 65535;
	object_is(&event, "10.0.0.1:65535/udp", "10.0.0.1");
	event.proto = 132;
	object_is(&event, "10.0.0.1:65535/132", "10.0.0.1");
	/* An address that could not be read, of a socket that could not be labelled. */
	event.family = 0;
	event.proto = 0;
	object_is(&event, "", "");
	event.family = 16;
	object_is(&event, "netlink", "");

	event.op = RF_OP_SOCKET;
	event.family = 17;
	object_is(&event, "packet", "");
	event.family = 2;
	event.proto = 1;
	object_is(&event, "inet/1", "");
	event.family = 255;
	event.proto = 0;
	odd = json_of(&event);
	number_is(odd, "family", 255);
	object_is(&event, "255", "");
}

static void path_is(struct rf_event *event, const char *path, bool partial)
{
	_cleanup_json_ json_t *json = json_of(event);

	text_is(json, "path", path);
	assert_int_equal(json_is_true(json_object_get(json, "partial")), partial);
}

static void paths(void **state)
{
	struct rf_event event = sample("");

	(void)state;
	path_is(&event, "/home/me", false);
	anchor_name = "/";
	path_is(&event, "/", false);
	event = sample("/etc/passwd");
	path_is(&event, "/etc/passwd", false);
	anchor_name = "/home/me";
	event.anchor.ino = 1; /* not known */
	path_is(&event, "/etc/passwd", true);
	event.flags = RF_EVENT_NO_ANCHOR;
	event.anchor.ino = 42;
	path_is(&event, "/etc/passwd", true);
	event = sample("/memfd:x");
	event.flags = RF_EVENT_DETACHED;
	event.magic = TMPFS_MAGIC;
	path_is(&event, "memfd:x", false);
	event = sample("");
	event.flags = RF_EVENT_DETACHED;
	event.magic = PIPEFS_MAGIC;
	path_is(&event, "pipe", false);
	event.magic = 1;
	path_is(&event, "detached", false);
}

static void other_outcomes(void **state)
{
	struct rf_event event = sample("/x");
	_cleanup_json_ json_t *json = NULL, *by_default = NULL, *deep = NULL;

	(void)state;
	event.decision = RF_ALLOW;
	event.missing = 0;
	event.flags = RF_EVENT_TRUNCATED;
	event.exe_len = 0; /* a kernel thread */
	json = json_of(&event);
	text_is(json, "verdict", "allow");
	assert_int_equal(json_array_size(json_object_get(json, "rights")), 2);
	assert_true(json_is_true(json_object_get(json, "truncated")));
	assert_null(json_object_get(json, "exe"));

	event.decision = RF_WOULD_DENY;
	event.missing = RF_READ;
	event.rule = 0;
	event.reason = RF_REASON_DEFAULT;
	by_default = json_of(&event);
	text_is(by_default, "verdict", "would-deny");
	assert_true(json_is_true(json_object_get(by_default, "default")));
	assert_null(json_object_get(by_default, "rule"));

	event.reason = RF_REASON_TOO_DEEP;
	event.rule = 2; /* the image has one */
	event.op = 200;
	event.path_len = 0xffffffff;
	deep = json_of(&event);
	text_is(deep, "reason", "too-deep");
	text_is(deep, "op", "unknown");
	assert_null(json_object_get(deep, "default"));
	assert_null(json_object_get(deep, "rule"));
}

static void times(void **state)
{
	_cleanup_json_ json_t *now = rf_event_time(0);
	struct tm tm = {0};
	time_t s;

	(void)state;
	assert_int_equal(json_string_length(now), strlen("2026-01-01T00:00:00.123456789Z"));
	assert_non_null(strptime(json_string_value(now), "%Y-%m-%dT%H:%M:%S", &tm));
	s = timegm(&tm);
	assert_true(labs(time(NULL) - s) <= 2);
}

static void lines(void **state)
{
	struct rf_event event = sample("/.ssh/id");
	_cleanup_json_ json_t *json = json_of(&event), *lost = NULL, *odd = NULL;
	_cleanup_free_ char *text = NULL, *colour = NULL, *lost_text = NULL, *odd_text = NULL,
			    *quoted = NULL, *today = NULL;
	static const char *const fields[] = {"time", "session", "verdict", "op",
					     "path", "comm",	"reason",  "proto"};
	_cleanup_free_ char *escaped = NULL;
	char expected[256];

	(void)state;
	setenv("TZ", "UTC", 1);
	json_object_set_new(json, "time", json_string("2001-11-29T17:34:21.123456789Z"));
	text = rf_event_text(json, false);
	snprintf(expected, sizeof(expected),
		 "2001-11-29 17:34:21.123 p-00ff00 deny open /home/me/.ssh/id read+modify  "
		 "p.yaml:7: deny all ~/.ssh  cat\\x0a[%d]",
		 (int)getpid());
	assert_string_equal(text, expected);
	json_object_set_new(json, "time", rf_event_time(0));
	today = rf_event_text(json, false);
	assert_string_equal(strchr(today, ' '), strchr(strchr(expected, ' ') + 1, ' '));
	json_object_set_new(json, "time", json_string("2001-11-29T17:34:21.123456789Z"));
	colour = rf_event_text(json, true);
	assert_non_null(strstr(colour, "\033[31mdeny\033[0m"));
	lost = json_pack("{s:s, s:s, s:s, s:s, s:i}", "time", "2026-11-29T17:34:21.1Z", "session",
			 "p-00ff00", "op", "lost", "reason", "ring-full", "count", 3);
	lost_text = rf_event_text(lost, false);
	assert_string_equal(lost_text, "2026-11-29T17:34:21.1Z p-00ff00 lost 3 events (ring-full)");
	json_object_set_new(json, "path", json_string("/home/me/x y \"z"));
	json_object_set_new(json, "partial", json_true());
	json_object_set_new(json, "truncated", json_true());
	json_object_set_new(json, "comm", json_string("a b[1]"));
	json_object_set_new(json, "count", json_integer(17));
	json_object_set_new(json_object_get(json, "rule"), "file", json_string("my p.yaml"));
	quoted = rf_event_text(json, false);
	snprintf(
		expected, sizeof(expected),
		"2001-11-29 17:34:21.123 p-00ff00 deny open ...\"/home/me/x y \\\"z\"... read+modify 17x  "
		"\"my p.yaml\":7: deny all ~/.ssh  \"a b[1]\"[%d]",
		(int)getpid());
	assert_string_equal(quoted, expected);
	/* What is in a log that another has written reaches no terminal. */
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		json_object_set_new(json, fields[i], json_string("a\033[31m\nb"));
	escaped = rf_event_text(json, false);
	assert_null(strpbrk(escaped, "\033\n"));
	odd = json_pack("{s:i, s:[i], s:s, s:n}", "time", 3, "rights", 3, "rule", "x", "path");
	odd_text = rf_event_text(odd, false);
	assert_non_null(odd_text);
}

static void names(void **state)
{
	char buf[48];

	(void)state;
	for (unsigned int i = 0; i < RF_OPS; i++)
		assert_string_not_equal(rf_op_name(i), "unknown");
	for (unsigned int i = 0; i < RF_DECISIONS; i++)
		assert_string_not_equal(rf_decision_name(i), "unknown");
	for (unsigned int i = 0; i < RF_REASONS; i++)
		assert_string_not_equal(rf_reason_name(i), "unknown");
	assert_string_equal(rf_reason_name(RF_REASONS), "unknown");
	assert_string_equal(rf_rights_text(0, buf, sizeof(buf)), "none");
	assert_string_equal(rf_rights_text(RF_ALL_RIGHTS, buf, sizeof(buf)),
			    "read+modify+create+delete+attr+exec");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_fields),	  cmocka_unit_test(paths),
		cmocka_unit_test(other_outcomes), cmocka_unit_test(times),
		cmocka_unit_test(lines),	  cmocka_unit_test(names),
		cmocka_unit_test(network),
	};
	size_t size;
	int failed;

	image = fake_image(&size);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(image);
	return failed;
}
