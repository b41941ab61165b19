/* SPDX-License-Identifier: BSD-2-Clause */
/* What is suggested for a denial is a valid line, and allows the act and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/explain.h"
#include "policy/policy.h"
#include "policy/util.h"
#include "user/cleanup.h"
#include "user/suggest.h"
#include "user/text.h"

#define WORKSPACE "/home/u/w[1]*"
static const struct rf_suggest_places places = {WORKSPACE, "/home/u"};

static const char *variable(void *userdata, const char *name, bool env)
{
	(void)userdata;
	return env ? NULL : strcmp(name, "HOME") ? WORKSPACE : "/home/u";
}

/* A policy of `head` and what is suggested; its verdict on the act: 0 allowed. */
static uint8_t verdict(const char *head, const json_t *event, const struct rf_object *object)
{
	_cleanup_json_ json_t *allow = rf_suggest(event, &places);
	_cleanup_diags_ struct rf_diags diags = {0};
	const struct rf_policy_env env = {.variable = variable, .features = ~0u};
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ void *image = NULL;
	struct rf_explanation explanation;
	struct rf_policy *policy;
	const char *key = json_string_value(json_object_get(allow, "key"));
	size_t size;
	int n;

	assert_non_null(allow);
	/* `head` ends within its list of files. */
	n = asprintf(&text, "%s%s%s  %s\n", head, strcmp(key, "files") ? key : "",
		     strcmp(key, "files") ? ":\n" : "",
		     json_string_value(json_object_get(allow, "line")));
	assert_true(n > 0);
	assert_int_equal(rf_policy_parse("t.yaml", text, (size_t)n, &env, &diags, &policy), 0);
	for (size_t i = 0; i < diags.n; i++)
		assert_null(strstr(diags.items[i].message, "reopens"));
	assert_int_equal(rf_policy_compile(policy, &diags, &image, &size), 0);
	assert_int_equal(rf_explain_object(image, object, &explanation), 0);
	rf_policy_free(policy);
	return explanation.verdict.missing;
}

static const char head[] = "ringfence: 1\nname: t\nfiles:\n"
			   "  - {allow: exec, paths: [/bin]}\n"
			   "  - {deny: all, paths: [/s]}\n";

static json_t *denial(const char *path, bool rule)
{
	char *text = rf_escape(path, strlen(path));
	json_t *event = json_pack("{s:s, s:s, s:[s, s], s:s}", "op", "open", "path", text, "rights",
				  "read", "modify", "reason", rule ? "rule" : "default");

	free(text);
	if (rule)
		json_object_set_new(event, "rule", json_pack("{s:s}", "text", "deny all /s"));
	else
		json_object_set_new(event, "default", json_true());
	return event;
}

static void each_path(void **state)
{
	static const char *const all[] = {
		"/",	 "/a",	  "/a b",      "/a'b",	"/a\"b",       "/a: b #c", "/a*",
		"/a?",	 "/[ab]", "/{a,b}",    "/a\\b", "/$HOME",      "/${X}/a",  "/~",
		"/~a/b", "/a,b",  "/\xc3\xbc", "/-",	"/a!b&c|d>e%", "/**",	   "/a\\x41b",
		"/@a",	 "/`",	  "/a:b",      "/a]",	"/}",
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		_cleanup_json_ json_t *event = denial(all[i], false);
		struct rf_object object = {.rights = RF_READ | RF_MODIFY, .path = (char *)all[i]};

		assert_int_equal(verdict(head, event, &object), 0);
		if (i == 0)
			continue;
		object.path = (char *)"/other";
		assert_int_equal(verdict(head, event, &object), RF_READ | RF_MODIFY);
		object = (struct rf_object){.rights = RF_CREATE, .path = (char *)all[i]};
		assert_int_equal(verdict(head, event, &object), RF_CREATE);
	}
}

/* A pattern for a byte that cannot be written is one for other names, as .env. */
static void odd_bytes(void **state)
{
	static const char *const all[] = {"/\xff\xff\xff\xff", "/a\nb",		 "/a\x1b[31m",
					  "/\xe2\x80\xae",     "/a\xef\xbf\xbe", "/\xef\xbf\xbf/b"};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		_cleanup_json_ json_t *event = denial(all[i], false);

		assert_null(rf_suggest(event, &(struct rf_suggest_places){0}));
	}
}

static void globs_are_names(void **state)
{
	_cleanup_json_ json_t *event = denial("/a*", false);
	struct rf_object object = {.rights = RF_READ, .path = (char *)"/ab"};

	(void)state;
	assert_int_equal(verdict(head, event, &object), RF_READ);
}

static void denied_by_rule(void **state)
{
	_cleanup_json_ json_t *event = denial("/s/key", true);
	struct rf_object object = {.rights = RF_READ, .path = (char *)"/s/key"};

	(void)state;
	assert_int_equal(verdict(head, event, &object), 0);
	object.path = (char *)"/s/other";
	assert_int_equal(verdict(head, event, &object), RF_READ);
}

static void addresses(void **state)
{
	static const struct {
		const char *addr, *proto, *object, *other;
		int port;
	} all[] = {
		{"10.0.0.1", "tcp", "10.0.0.1:443", "10.0.0.1:443/udp", 443},
		{"10.0.0.1", "udp", "10.0.0.1:53/udp", "10.0.0.2:53/udp", 53},
		{"2001:db8::1", "tcp", "[2001:db8::1]:80", "[2001:db8::1]:81", 80},
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		__attribute__((cleanup(rf_arena_done))) struct rf_arena arena = {0};
		_cleanup_json_ json_t *event =
			json_pack("{s:s, s:[s], s:s, s:i, s:s, s:s}", "op", "connect", "rights",
				  "connect", "addr", all[i].addr, "port", all[i].port, "proto",
				  all[i].proto, "reason", "default");
		struct rf_pattern_error error;
		struct rf_object object;

		assert_int_equal(rf_object_parse("connect", all[i].object, &arena, &object, &error),
				 0);
		assert_int_equal(verdict(head, event, &object), 0);
		assert_int_equal(rf_object_parse("connect", all[i].other, &arena, &object, &error),
				 0);
		assert_int_not_equal(verdict(head, event, &object), 0);
	}
}

static json_t *event_of(const char *text)
{
	_cleanup_free_ char *quoted = strdup(text);
	json_t *event;

	for (char *c = quoted; *c; c++)
		if (*c == '\'')
			*c = '"';
	event = json_loads(quoted, 0, NULL);
	assert_non_null(event);
	return event;
}

static void nothing_to_suggest(void **state)
{
	static const char *const all[] = {
		"{'op': 'ioctl', 'path': '/dev/pts/1', 'rights': ['modify'], 'reason': 'terminal'}",
		"{'op': 'open', 'path': 'memfd:a', 'rights': ['exec'], 'reason': 'default'}",
		"{'op': 'open', 'path': '/a', 'partial': true, 'rights': ['read'], 'reason': 'default'}",
		"{'op': 'open', 'path': '/a', 'truncated': true, 'rights': ['read'], 'reason': 'rule'}",
		"{'path': '/a', 'rights': ['read'], 'reason': 'rule', 'rule': {'text': 'forbid all /'}}",
		"{'op': 'socket', 'family': 'packet', 'rights': [], 'reason': 'bad-family'}",
		"{'op': 'lost', 'count': 3, 'reason': 'rate'}",
		"{}",
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		_cleanup_json_ json_t *event = event_of(all[i]);

		assert_null(rf_suggest(event, &places));
	}
}

static void assert_line(const char *event_text, const char *wanted)
{
	_cleanup_json_ json_t *event = event_of(event_text), *allow = rf_suggest(event, &places);

	assert_string_equal(json_string_value(json_object_get(allow, "line")), wanted);
}

static void places_have_names(void **state)
{
	_cleanup_json_ json_t *in_home = denial("/home/u/.a", false),
			      *in_workspace = denial(WORKSPACE "/b", false);
	struct rf_object object = {.rights = RF_READ, .path = (char *)"/home/u/.a"};

	(void)state;
	assert_line("{'path': '/home/u/.a', 'rights': ['read'], 'reason': 'default'}",
		    "- {allow: [read], paths: ['~/.a']}");
	assert_line("{'path': '/home/u/w[1]*/b', 'rights': ['read'], 'reason': 'default'}",
		    "- {allow: [read], paths: ['${WORKSPACE}/b']}");
	assert_line("{'path': '/home/u', 'rights': ['read'], 'reason': 'default'}",
		    "- {allow: [read], paths: [/home/u]}");
	assert_line("{'path': '/home/uu/b', 'rights': ['read'], 'reason': 'default'}",
		    "- {allow: [read], paths: [/home/uu/b]}");
	assert_int_equal(verdict(head, in_home, &object), 0);
	object.path = (char *)WORKSPACE "/b";
	assert_int_equal(verdict(head, in_workspace, &object), 0);
	object.path = (char *)"/home/u/w1x/b";
	assert_int_equal(verdict(head, in_workspace, &object), RF_READ);
}

/* Of a file in a folder for temporary ones the next name is another. */
static void temporary(void **state)
{
	static const char text[] = "{'path': '/tmp/ccQwY3Qu.s', 'rights': ['modify', 'create'],"
				   " 'reason': 'default'}";
	_cleanup_json_ json_t *event = event_of(text);
	struct rf_object object = {.rights = RF_READ | RF_MODIFY | RF_CREATE | RF_DELETE,
				   .path = (char *)"/tmp/ccAnother.s"};

	(void)state;
	assert_line(text, "- {allow: [read, write], paths: ['/tmp/*']} "
			  "# temporary files: other names each time");
	assert_int_equal(verdict(head, event, &object), 0);
	object.path = (char *)"/tmp";
	assert_int_not_equal(verdict(head, event, &object), 0);
	/* What is there already is meant by its name, and so is what lies deeper. */
	assert_line("{'path': '/tmp/a', 'rights': ['read'], 'reason': 'default'}",
		    "- {allow: [read], paths: [/tmp/a]}");
	assert_line("{'path': '/tmp/a/b', 'rights': ['create'], 'reason': 'default'}",
		    "- {allow: [create], paths: [/tmp/a/b]}");
	assert_line("{'path': '/dev/shm/a', 'rights': ['create'], 'reason': 'rule',"
		    " 'rule': {'text': 'deny all /dev/shm'}}",
		    "- {allow: [create], paths: [/dev/shm/a], reopens: true} "
		    "# the name may be another one each time");
}

/* One line for each path, with all its rights; and for each address. */
static void lines(void **state)
{
	_cleanup_json_ json_t *denials = event_of(
		"{'1': {'path': '/a', 'rights': ['create'], 'reason': 'default'},"
		" '2': {'path': '/b', 'rights': ['read'], 'reason': 'default'},"
		" '3': {'path': '/a', 'rights': ['modify', 'read'], 'reason': 'default'},"
		" '4': {'path': '/c', 'rights': ['read'], 'reason': 'raced'},"
		" '5': {'addr': '10.0.0.1', 'port': 1, 'proto': 'tcp', 'reason': 'default'},"
		" '6': {'path': '/a', 'rights': ['exec'], 'reason': 'rule',"
		"       'rule': {'text': 'deny exec /a'}},"
		" '7': {'addr': '10.0.0.1', 'port': 1, 'proto': 'tcp', 'reason': 'default'}}");
	_cleanup_json_ json_t *files = rf_suggest_lines(denials, "files", &places),
			      *network = rf_suggest_lines(denials, "network", &places),
			      *none = json_object(),
			      *nothing = rf_suggest_lines(none, "files", &places);

	(void)state;
	assert_int_equal(json_array_size(files), 2);
	assert_string_equal(json_string_value(json_array_get(files, 0)),
			    "- {allow: [read, modify, create, exec], paths: [/a], reopens: true}");
	assert_string_equal(json_string_value(json_array_get(files, 1)),
			    "- {allow: [read], paths: [/b]}");
	assert_int_equal(json_array_size(network), 1);
	assert_string_equal(json_string_value(json_array_get(network, 0)),
			    "- {allow: connect, to: [\"10.0.0.1:1/tcp\"]}");
	assert_true(json_is_array(nothing) && !json_array_size(nothing));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_path),
		cmocka_unit_test(odd_bytes),
		cmocka_unit_test(globs_are_names),
		cmocka_unit_test(denied_by_rule),
		cmocka_unit_test(addresses),
		cmocka_unit_test(nothing_to_suggest),
		cmocka_unit_test(places_have_names),
		cmocka_unit_test(temporary),
		cmocka_unit_test(lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
