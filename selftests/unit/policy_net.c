/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules for the network: addresses, prefixes, ports, protocols, order; the tables against a plain look. */
#include "selftests/unit/policy.h"

#include <arpa/inet.h>

#include "policy/net.h"
#include "policy/object.h"
#include "policy/print.h"

static int judge(const void *image, const char *target)
{
	struct rf_arena arena = {0};
	struct rf_pattern_error error;
	struct rf_object object;
	struct rf_explanation e;

	if (rf_object_parse("connect", target, &arena, &object, &error))
		fail_msg("%s: %s", target, error.message);
	assert_int_equal(rf_explain_object(image, &object, &e), 0);
	rf_arena_done(&arena);
	if (!e.has_rule) {
		assert_int_equal(e.verdict.missing, 1);
		return 0;
	}
	return e.verdict.missing ? -(int)e.rule.line : (int)e.rule.line;
}

static void test_rules(void **state)
{
	static const struct {
		const char *target;
		int line;
	} rows[] = {
		{"10.1.2.3:5432", 5},
		{"10.1.2.3:5433", 0},
		{"10.2.0.0:5432", 0},
		{"[::ffff:10.1.2.3]:5432", 5},
		{"[2001:db8::7]:443", 6},
		{"[2001:db8::7]:443/udp", 0},
		{"[2001:db9::7]:443", 0},
		{"8.8.8.8:53/udp", 7},
		{"8.8.8.8:53/tcp", 7},
		{"8.8.8.8:54", 0},
		{"[::1]:53", 7},
		{"127.0.0.1:1024", 8},
		{"127.0.0.1:1023", 0},
		{"127.0.0.1:65535", 8},
		{"127.0.0.1:8080", -10},
		{"127.0.0.2:1024", 0},
		{"169.254.169.254:80", -12},
		{"169.254.1.1:80", 13},
		{"169.254.1.1:0", 13},
	};
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(HEAD "network:\n  - allow: connect\n"
				      "    to: [\"10.1.0.0/16:5432\",\n"
				      "         \"[2001:db8::]/32:443/tcp\",\n"
				      "         \"*:53\",\n"
				      "         \"127.0.0.1:1024-65535\"]\n"
				      "  - deny: connect\n    to: [\"127.0.0.0/8:8080\"]\n"
				      "  - forbid: connect\n    to: [169.254.169.254]\n"
				      "  - { allow: connect, to: [169.254.0.0/16] }\n",
				 &diags, &size);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (judge(image, rows[i].target) != rows[i].line)
			fail_msg("%s: %d instead of %d", rows[i].target,
				 judge(image, rows[i].target), rows[i].line);
	free(image);
	rf_diags_done(&diags);
}

static void test_no_rules(void **state)
{
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(HEAD "network: []\n", &diags, &size);

	(void)state;
	assert_int_equal(judge(image, "10.0.0.1:80"), 0);
	free(image);
	rf_diags_done(&diags);
}

static void test_text(void **state)
{
	static const char *const rows[][2] = {
		{"10.1.0.0/16:5432", "10.1.0.0/16:5432"},
		{"10.0.0.1", "10.0.0.1/32"},
		{"[::ffff:10.0.0.0]/104", "10.0.0.0/8"},
		{"[::]/0", "*"},
		{"0.0.0.0/0:80/udp", "0.0.0.0/0:80/udp"},
		{"[2001:db8::]/32:1-2/tcp", "[2001:db8::]/32:1-2/tcp"},
		{"*:443", "*:443"},
		{"10.0.0.0/8/tcp", "10.0.0.0/8/tcp"},
		{"*/udp", "*/udp"},
		{"[::1]:0", "[::1]/128:0"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rf_text text = {0};
		struct rf_target target;
		struct rf_pattern_error error;

		if (rf_target_parse(rows[i][0], &target, &error))
			fail_msg("%s: %s", rows[i][0], error.message);
		rf_target_text(&target, &text);
		assert_string_equal(text.text, rows[i][1]);
		rf_text_done(&text);
	}
}

/* The rule's line for one address, found by looking at each rule. */
static int plain(const struct rf_policy *policy, const uint8_t *address, bool udp, uint16_t port)
{
	const struct rf_net_rule *best = NULL;

	for (size_t i = 0; i < policy->nnet; i++) {
		const struct rf_net_rule *r = &policy->net[i];
		bool inside = port >= r->target.first && port <= r->target.last &&
			      (r->target.protocols & (udp ? RF_UDP : RF_TCP));

		for (unsigned int bit = 0; bit < r->target.prefix; bit++)
			inside &= (address[bit / 8] >> (7 - bit % 8) & 1) ==
				  (r->target.address[bit / 8] >> (7 - bit % 8) & 1);
		if (inside && !(best && best->head.sense.action == RF_RULE_FORBID &&
				r->head.sense.action != RF_RULE_FORBID))
			best = r;
	}
	return best ? (int)(best - policy->net) + 1 : 0;
}

/* Random policies, addresses near their prefixes. */
static void test_random(void **state)
{
	static const char *const actions[] = {"allow", "deny", "forbid"};
	unsigned int decided = 0, n = 0;

	(void)state;
	srand(7);
	for (unsigned int round = 0; round < 200; round++) {
		struct rf_policy *policy = NULL;
		struct rf_diags diags = {0};
		char text[4000];
		size_t size = snprintf(text, sizeof(text), HEAD "network:\n"), image_size;
		void *image;

		for (int i = rand() % 12; i >= 0; i--) {
			unsigned int prefix = rand() % 33;
			uint32_t a = (0x0a000000 | (rand() & 0x3 << rand() % 23)) &
				     (prefix ? ~0u << (32 - prefix) : 0);
			unsigned int first = rand() % 100, last = first + rand() % 100;

			size += snprintf(text + size, sizeof(text) - size,
					 "  - { %s: connect, to: [\"%u.%u.%u.%u/%u:%u-%u%s\"] }\n",
					 actions[rand() % 5 % 3], a >> 24, a >> 16 & 255,
					 a >> 8 & 255, a & 255, prefix, first, last,
					 rand() % 3   ? ""
					 : rand() % 2 ? "/tcp"
						      : "/udp");
		}
		if (test_parse(text, &diags, &policy)) {
			test_show(&diags);
			fail_msg("%s", text);
		}
		assert_int_equal(rf_policy_compile(policy, &diags, &image, &image_size), 0);
		assert_int_equal(rf_image_verify(image, image_size, &diags), 0);
		for (unsigned int i = 0; i < 200; i++) {
			uint8_t address[16] = {[10] = 0xff, [11] = 0xff};
			bool udp = rand() % 2;
			uint16_t port = rand() % 200;
			uint64_t entry;

			memcpy(address, policy->net[rand() % policy->nnet].target.address, 16);
			if (rand() % 2)
				address[12 + rand() % 4] ^= 1 << rand() % 8;
			entry = rf_net_find(image, RF_NO_MASK, address, udp, port);
			n++;
			decided += RF_PORT_RULE(entry) != 0;
			if (RF_PORT_RULE(entry) != plain(policy, address, udp, port))
				fail_msg("%s%u.%u.%u.%u:%u: %u", text, address[12], address[13],
					 address[14], address[15], port, RF_PORT_RULE(entry));
		}
		free(image);
		rf_policy_free(policy);
		rf_diags_done(&diags);
	}
	assert_in_range(decided, n / 4, n - n / 10);
}

static void test_audited(void **state)
{
	struct rf_diags diags = {0};
	const uint8_t address[16] = {[10] = 0xff, [11] = 0xff, [12] = 10};
	size_t size;
	void *image = test_image(HEAD "network:\n  - { allow: connect, to: [10.0.0.0/8] }\n"
				      "  - { deny: connect, to: [\"10.0.0.0:80\"], audit: true }\n",
				 &diags, &size);
	uint64_t entry = rf_net_find(image, RF_NO_MASK, address, 0, 80);

	(void)state;
	assert_int_equal(RF_PORT_VERDICT(entry), RF_NET_ALLOW);
	assert_int_equal(RF_PORT_RULE(entry), 1);
	assert_int_equal(RF_PORT_AUDITED(entry), RF_NET_DENY);
	assert_int_equal(RF_PORT_AUDITED_RULE(entry), 2);
	free(image);
	rf_diags_done(&diags);
}

static void test_lint(void **state)
{
	struct rf_diags diags = {0};
	size_t size, found = 0;

	(void)state;
	free(test_image(HEAD "network:\n  - { deny: connect, to: [10.0.0.1] }\n"
			     "  - { allow: connect, to: [10.0.0.0/8] }\n",
			&diags, &size));
	for (size_t i = 0; i < diags.n; i++)
		found += diags.items[i].line == 4 && strstr(diags.items[i].message, "never win");
	assert_int_equal(found, 1);
	rf_diags_done(&diags);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),	cmocka_unit_test(test_no_rules),
		cmocka_unit_test(test_text),	cmocka_unit_test(test_random),
		cmocka_unit_test(test_audited), cmocka_unit_test(test_lint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
