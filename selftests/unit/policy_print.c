/* SPDX-License-Identifier: BSD-2-Clause */
/* What `check --print` shows of each phase. */
#include "selftests/unit/policy.h"

#include "policy/print.h"

static const char text[] = HEAD "files:\n  - allow: [read, exec]\n    paths: [/a, \"/b/*.[ch]\"]\n"
				"  - deny: write\n    paths: [\"~/{x,y}\"]\n    audit: true\n"
				"network:\n  - { allow: connect, to: [\"128.0.0.0/1:80/tcp\"] }\n"
				"  - { deny: connect, to: [\"*:81\"], audit: true }\n";

static char *show(int (*print)(const struct rf_policy *policy, FILE *out), const char *policy_text)
{
	struct rf_policy *policy = NULL;
	struct rf_diags diags = {0};
	char *shown = NULL;
	size_t size;
	FILE *out = open_memstream(&shown, &size);

	assert_non_null(out);
	assert_int_equal(test_parse(policy_text, &diags, &policy), 0);
	assert_int_equal(print(policy, out), 0);
	fclose(out);
	rf_policy_free(policy);
	rf_diags_done(&diags);
	return shown;
}

static void expect(const char *shown, const char *const *lines)
{
	for (; *lines; lines++)
		if (!strstr(shown, *lines))
			fail_msg("no \"%s\" in:\n%s", *lines, shown);
}

static void test_rules(void **state)
{
	static const char *const lines[] = {
		"policy t, mode enforce, log denies\n",
		"    1  allow  read,exec          /a  (t.yaml:5)\n",
		"    3  deny   write              ~/{x,y}  (t.yaml:7) audit\n",
		"    4  allow  connect            128.0.0.0/1:80/tcp  (t.yaml:10)\n",
		NULL,
	};
	char *shown = show(rf_print_rules, text);

	(void)state;
	expect(shown, lines);
	free(shown);
}

static void test_patterns(void **state)
{
	char *shown = show(rf_print_patterns, text);

	(void)state;
	assert_string_equal(shown, "    1  /a\n    2  /b/*.[ch]\n    3  /home/u/x\n"
				   "    3  /home/u/y\n");
	free(shown);
}

static void test_dfa(void **state)
{
	static const char *const lines[] = {
		"start 0; rights rmcdax:rule\n",
		": r:1 x:1  else->",
		" m:3(audit) c:3(audit) d:3(audit) a:3(audit)",
		"  /->",
		NULL,
	};
	char *shown = show(rf_print_dfa, text);

	(void)state;
	expect(shown, lines);
	free(shown);
}

static void test_net(void **state)
{
	static const char *const lines[] = {
		" nodes, ",
		"128.0.0.0/4",
		"tcp up to 80    allow by rule 4\n",
		"udp up to 65535 default\n",
		"tcp up to 81    default; audited: deny by rule 5\n",
		NULL,
	};
	char *shown = show(rf_print_net, text);

	(void)state;
	expect(shown, lines);
	free(shown);
	shown = show(rf_print_net, HEAD);
	assert_string_equal(shown, "0 nodes, 0 leaves, 0 port ranges\n");
	free(shown);
}

static void test_image_text(void **state)
{
	static const char *const lines[] = {"version 3, ", "start 1, detached 0x1f\n",
					    " states (",   "5 rules at word",
					    "network: ",   NULL};
	struct rf_diags diags = {0};
	char *shown = NULL;
	size_t size, image_size;
	void *image = test_image(text, &diags, &image_size);
	FILE *out = open_memstream(&shown, &size);

	(void)state;
	assert_non_null(out);
	assert_int_equal(rf_print_image(image, out), 0);
	fclose(out);
	expect(shown, lines);
	free(shown);
	free(image);
	rf_diags_done(&diags);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),	   cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_dfa),	   cmocka_unit_test(test_net),
		cmocka_unit_test(test_image_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
