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

static const uint8_t any4[16] = {[10] = 0xff, [11] = 0xff}, any6[16];

/* The rule's number for one address, found by looking at each rule; or at those of more than `but`. */
static int plain_but(const struct rf_policy *policy, const uint8_t *address, bool udp,
		     uint16_t port, const uint8_t *but)
{
	const struct rf_net_rule *best = NULL;

	for (size_t i = 0; i < policy->nnet; i++) {
		const struct rf_net_rule *r = &policy->net[i];
		bool inside = port >= r->target.first && port <= r->target.last &&
			      (r->target.protocols & (udp ? RF_UDP : RF_TCP));

		if (but && r->target.prefix == 128 && !memcmp(r->target.address, but, 16))
			continue;
		for (unsigned int bit = 0; bit < r->target.prefix; bit++)
			inside &= (address[bit / 8] >> (7 - bit % 8) & 1) ==
				  (r->target.address[bit / 8] >> (7 - bit % 8) & 1);
		if (inside && !(best && best->head.sense.action == RF_RULE_FORBID &&
				r->head.sense.action != RF_RULE_FORBID))
			best = r;
	}
	return best ? (int)(best - policy->net) + 1 : 0;
}

static int plain(const struct rf_policy *policy, const uint8_t *address, bool udp, uint16_t port)
{
	return plain_but(policy, address, udp, port, NULL);
}

/* 0 for an allow; else what is told goes by this order. */
static int weight(const struct rf_policy *policy, int rule)
{
	uint8_t action = rule ? policy->net[rule - 1].head.sense.action : RF_RULE_DENY;

	return action == RF_RULE_ALLOW ? 0 : 1 + rule + (action == RF_RULE_FORBID ? 1000 : 0);
}

static bool behind_last(const struct rf_target *t, uint8_t address[16])
{
	unsigned int bit = t->prefix;

	memcpy(address, t->address, 16);
	for (; bit; bit--) {
		address[(bit - 1) / 8] ^= 0x80 >> (bit - 1) % 8;
		if (address[(bit - 1) / 8] & 0x80 >> (bit - 1) % 8)
			return true;
	}
	return false;
}

/*
 * The rule for any address, found by looking at the first address of all, the first one
 * of each rule and the one behind its last: no verdict changes elsewhere.
 */
static int plain_any(const struct rf_policy *policy, const uint8_t *any, bool udp, uint16_t port)
{
	int told = plain(policy, any, udp, port);

	for (size_t i = 0; i < 2 * policy->nnet + 2; i++) {
		const uint8_t *but = NULL;
		uint8_t address[16];
		int rule;

		if (i < 2)
			memcpy(address, i ? any6 : any4, 16);
		else if (i % 2)
			memcpy(address, policy->net[i / 2 - 1].target.address, 16);
		else if (!behind_last(&policy->net[i / 2 - 1].target, address))
			continue;
		if (any == any4 && memcmp(address, any4, 12) != 0)
			continue;
		if (!memcmp(address, any4, 16) || !memcmp(address, any6, 16))
			but = address;
		rule = plain_but(policy, address, udp, port, but);
		if (weight(policy, rule) > weight(policy, told))
			told = rule;
	}
	return told;
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
			if (RF_PORT_RULE(entry) != (memcmp(address, any4, 16)
							    ? plain(policy, address, udp, port)
							    : plain_any(policy, any4, udp, port)))
				fail_msg("%s%u.%u.%u.%u:%u: %u", text, address[12], address[13],
					 address[14], address[15], port, RF_PORT_RULE(entry));
		}
		free(image);
		rf_policy_free(policy);
		rf_diags_done(&diags);
	}
	assert_in_range(decided, n / 4, n - n / 10);
}

/* Random policies about few addresses: what they say to 0.0.0.0 and ::. */
static void test_random_any(void **state)
{
	static const char *const actions[] = {"allow", "allow", "allow", "deny", "forbid"};
	static const char *const hosts[] = {
		"*",	    "*",	  "0.0.0.0/0",	     "0.0.0.0/1",  "128.0.0.0/1",
		"0.0.0.0",  "0.0.0.0/31", "0.0.0.1",	     "0.0.0.0/30", "127.0.0.1",
		"[::]",	    "[::]/127",	  "[::1]",	     "[::]/1",	   "[8000::]/1",
		"[::]/80",  "[::]/96",	  "255.255.255.255", "[::]/0",	   "[::fffe:0:0]/95",
		"[::]/127", "10.0.0.0/8",
	};
	unsigned int allowed = 0, denied = 0;

	(void)state;
	srand(8);
	for (unsigned int round = 0; round < 400; round++) {
		struct rf_policy *policy = NULL;
		struct rf_diags diags = {0};
		char text[4000];
		size_t size = snprintf(text, sizeof(text), HEAD "network:\n"), image_size;
		void *image;

		for (int i = rand() % 8; i >= 0; i--) {
			unsigned int first = rand() % 4, last = first + rand() % 4;

			size += snprintf(text + size, sizeof(text) - size,
					 "  - { %s: connect, to: [\"%s:%u-%u%s\"] }\n",
					 actions[rand() % RF_COUNT(actions)],
					 hosts[rand() % RF_COUNT(hosts)], first, last,
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
		for (unsigned int i = 0; i < 2 * 2 * 10; i++) {
			const uint8_t *any = i % 2 ? any4 : any6;
			bool udp = i / 2 % 2;
			uint64_t entry = rf_net_find(image, RF_NO_MASK, any, udp, i / 4);
			int told = plain_any(policy, any, udp, i / 4);

			if (RF_PORT_RULE(entry) != told)
				fail_msg("%s%s:%u: %u instead of %d", text,
					 i % 2 ? "0.0.0.0" : "[::]", i / 4, RF_PORT_RULE(entry),
					 told);
			assert_int_equal(RF_PORT_VERDICT(entry) == RF_NET_ALLOW,
					 !weight(policy, told));
			*(weight(policy, told) ? &denied : &allowed) += 1;
		}
		/* The address beside it is judged as before. */
		for (unsigned int i = 0; i < 2 * 10; i++) {
			uint8_t address[16] = {[15] = 1};
			uint64_t entry;

			if (i % 2)
				address[10] = address[11] = 0xff;
			entry = rf_net_find(image, RF_NO_MASK, address, 0, i / 2);
			assert_int_equal(RF_PORT_RULE(entry), plain(policy, address, 0, i / 2));
		}
		free(image);
		rf_policy_free(policy);
		rf_diags_done(&diags);
	}
	assert_in_range(allowed, 500, 400 * 40);
	assert_in_range(denied, 500, 400 * 40);
}

static void test_any(void **state)
{
	static const struct {
		const char *target;
		int line;
	} rows[] = {
		{"0.0.0.0:80", 5}, /* every address */
		{"[::]:80", 5},
		{"[::ffff:0.0.0.0]:80", 5},
		{"0.0.0.0:80/udp", 0}, /* no address */
		{"0.0.0.0:8080", 0}, /* one of them */
		{"127.0.0.1:8080", 5},
		{"0.0.0.0:90", -7}, /* all but some */
		{"[::]:90", -7},
		{"0.0.0.0:91", 5}, /* all IPv4 addresses, and not all of IPv6 */
		{"[::]:91", -9},
		{"0.0.0.0:92", 0}, /* an allow of itself opens nothing */
		{"[::]:92", 0},
		{"0.0.0.0:93", -13}, /* a deny of itself denies */
		{"[::]:93", -13}, /* and so does that of :: */
		{"[::]:94", -13},
		{"0.0.0.0:94", 5},
		{"0.0.0.0:95", -15}, /* the last deny */
		{"0.0.0.0:96", -17}, /* a forbid before it */
		{"0.0.0.1:92", 0},
	};
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(
		HEAD "network:\n  - allow: connect\n"
		     "    to: [\"*:80/tcp\", \"127.0.0.1:8080\", \"*:90-91\", \"*:93-96\"]\n"
		     "  - deny: connect\n    to: [\"10.0.0.0/8:90\"]\n"
		     "  - deny: connect\n    to: [\"[2001:db8::1]:91\"]\n"
		     "  - allow: connect\n    to: [\"0.0.0.0:92\", \"[::]:92\"]\n"
		     "  - deny: connect\n    to: [\"0.0.0.0:93\", \"[::]:93-94\"]\n"
		     "  - deny: connect\n    to: [\"10.0.0.0/8:95\", \"11.0.0.0/8:95\"]\n"
		     "  - forbid: connect\n    to: [\"10.0.0.1:96\"]\n"
		     "  - { deny: connect, to: [\"11.0.0.0/8:96\"] }\n",
		&diags, &size);

	(void)state;
	for (size_t i = 0; i < RF_COUNT(rows); i++)
		if (judge(image, rows[i].target) != rows[i].line)
			fail_msg("%s: %d instead of %d", rows[i].target,
				 judge(image, rows[i].target), rows[i].line);
	free(image);
	rf_diags_done(&diags);
}

/* Where a policy says the same to every address, its tree stays one leaf. */
static void test_any_size(void **state)
{
	static const char *const rules[] = {
		"  - { allow: connect, to: [\"*:443\"] }\n",
		"  - { allow: connect, to: [\"*:443\", \"0.0.0.0:443\"] }\n",
	};

	(void)state;
	for (size_t i = 0; i < RF_COUNT(rules); i++) {
		struct rf_policy *policy = NULL;
		struct rf_diags diags = {0};
		struct rf_net net;
		char text[200];

		snprintf(text, sizeof(text), HEAD "network:\n%s", rules[i]);
		assert_int_equal(test_parse(text, &diags, &policy), 0);
		assert_int_equal(rf_net_build(policy, 0, NULL, &net), 0);
		assert_int_equal(net.nleaves, 1 + i);
		assert_int_equal(net.nnodes, 32 * i);
		rf_net_done(&net);
		rf_policy_free(policy);
		rf_diags_done(&diags);
	}
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
	/* Of any address as well: most are not allowed by default, and a rule is told first. */
	entry = rf_net_find(image, RF_NO_MASK, any4, 0, 80);
	assert_int_equal(RF_PORT_VERDICT(entry), RF_NET_DEFAULT);
	assert_int_equal(RF_PORT_AUDITED(entry), RF_NET_DENY);
	assert_int_equal(RF_PORT_AUDITED_RULE(entry), 2);
	free(image);
	image = test_image(HEAD "network:\n  - { allow: connect, to: [0.0.0.0/0] }\n"
				"  - { deny: connect, to: [\"10.0.0.0:80\"], audit: true }\n",
			   &diags, &size);
	entry = rf_net_find(image, RF_NO_MASK, any4, 0, 80);
	assert_int_equal(RF_PORT_VERDICT(entry), RF_NET_ALLOW);
	assert_int_equal(RF_PORT_AUDITED(entry), RF_NET_DENY);
	assert_int_equal(RF_PORT_AUDITED_RULE(entry), 2);
	free(image);
	rf_diags_done(&diags);
}

/* The warnings with these words, by the bits of their lines. */
static unsigned int warned(const char *rules, const char *words)
{
	struct rf_diags diags = {0};
	unsigned int lines = 0;
	char text[1000];
	size_t size;

	snprintf(text, sizeof(text), HEAD "network:\n%s", rules);
	free(test_image(text, &diags, &size));
	for (size_t i = 0; i < diags.n; i++)
		if (strstr(diags.items[i].message, words))
			lines |= 1u << diags.items[i].line;
	rf_diags_done(&diags);
	return lines;
}

static void test_any_lint(void **state)
{
	(void)state;
	assert_int_equal(warned("  - { allow: connect, to: [\"0.0.0.0:80\"] }\n"
				"  - { allow: connect, to: [\"[::]:80\", \"127.0.0.1:80\"] }\n",
				"allows nothing"),
			 1u << 4 | 1u << 5);
	assert_int_equal(warned("  - { allow: connect, to: [\"0.0.0.0:80\"] }\n", "never win"), 0);
	/* It takes back a deny, or says nothing new. */
	assert_int_equal(warned("  - { allow: connect, to: [\"*:80\"] }\n"
				"  - { deny: connect, to: [\"0.0.0.0:80\"] }\n"
				"  - { allow: connect, to: [\"0.0.0.0:80/udp\"] }\n",
				"allows nothing"),
			 0);
	assert_int_equal(warned("  - { allow: connect, to: [\"0.0.0.0/31:80\"] }\n", "nothing"), 0);
	/* A deny of it, where it is denied anyway by another that is told. */
	assert_int_equal(warned("  - { allow: connect, to: [\"*:80\"] }\n"
				"  - { deny: connect, to: [\"0.0.0.0:80\"] }\n"
				"  - { deny: connect, to: [\"10.0.0.0/8:80\"] }\n",
				"never win"),
			 1u << 5);
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
		found += diags.items[i].line == 4 &&
			 strstr(diags.items[i].message,
				"never win: deny connect 10.0.0.1; `allow connect 10.0.0.0/8` "
				"(t.yaml:5) decides about 10.0.0.1");
	assert_int_equal(found, 1);
	rf_diags_done(&diags);
}

static void test_reopened(void **state)
{
	static const struct {
		const char *rules;
		unsigned int lines;
	} rows[] = {
		{"  - { deny: connect, to: [10.0.0.0/8] }\n  - { allow: connect, to: [10.1.0.0/16] }\n",
		 1u << 5},
		{"  - { deny: connect, to: [10.1.0.0/16] }\n  - { allow: connect, to: [\"*:80\"] }\n",
		 1u << 5},
		{"  - { deny: connect, to: [10.0.0.0/8] }\n"
		 "  - { allow: connect, to: [10.1.0.0/16], reopens: true }\n",
		 0},
		{"  - { allow: connect, to: [\"*\"] }\n  - { deny: connect, to: [10.0.0.0/8] }\n",
		 0},
		/* They do not meet, or another one decides. */
		{"  - { deny: connect, to: [\"*:1-79\"] }\n  - { allow: connect, to: [\"*:80\"] }\n",
		 0},
		{"  - { deny: connect, to: [\"*/tcp\"] }\n  - { allow: connect, to: [\"*/udp\"] }\n",
		 0},
		{"  - { deny: connect, to: [10.0.0.0/8] }\n  - { allow: connect, to: [11.0.0.0/8] }\n",
		 0},
		{"  - { forbid: connect, to: [10.0.0.0/8] }\n"
		 "  - { deny: connect, to: [10.1.0.0/16] }\n  - { allow: connect, to: [\"*\"] }\n",
		 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(
			warned(rows[i].rules, "this allow reopens a part of `deny connect"),
			rows[i].lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),	 cmocka_unit_test(test_no_rules),
		cmocka_unit_test(test_text),	 cmocka_unit_test(test_random),
		cmocka_unit_test(test_audited),	 cmocka_unit_test(test_lint),
		cmocka_unit_test(test_any),	 cmocka_unit_test(test_any_size),
		cmocka_unit_test(test_any_lint), cmocka_unit_test(test_random_any),
		cmocka_unit_test(test_reopened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
