/* SPDX-License-Identifier: BSD-2-Clause */
/* The image verifier: what the writer makes passes, anything else is refused, nothing is read outside. */
#include "selftests/unit/policy.h"

#include <zlib.h>

#include "bpf/verdict.h"

static const char text[] =
	HEAD "files:\n  - allow: [read, exec]\n    paths: [/usr, \"/a/*b*/**/c\"]\n"
	     "  - deny: all\n    paths: [/usr/x, \"**/.env\", \"/q/[a-f]?z\"]\n"
	     "  - forbid: write\n    paths: [/usr/y]\n"
	     "network:\n  - { allow: connect, to: [\"10.0.0.0/9:80-90\"] }\n"
	     "  - { deny: connect, to: [\"[2001:db8::]/33:7/udp\"] }\n";

static void *copy_of(const void *image, size_t size)
{
	void *copy = malloc(size);

	assert_non_null(copy);
	memcpy(copy, image, size);
	return copy;
}

static void seal(void *image, size_t size)
{
	struct rf_image *h = image;

	h->checksum = 0;
	h->checksum = crc32(0, image, size);
}

static void expect_broken(const void *image, size_t size, const char *message)
{
	struct rf_diags diags = {0};

	assert_int_equal(rf_image_verify(image, size, &diags), -EINVAL);
	assert_int_equal(diags.errors, 1);
	if (!strstr(diags.items[0].message, message))
		fail_msg("%s instead of %s", diags.items[0].message, message);
	rf_diags_done(&diags);
}

static void test_header(void **state)
{
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(text, &diags, &size), *copy;

	(void)state;
	for (size_t cut = 0; cut < size; cut += 8) {
		copy = copy_of(image, size);
		expect_broken(copy, cut, "");
		free(copy);
	}
	expect_broken(image, size - 1, "size");
	/* Any one bit that differs. */
	for (size_t byte = 0; byte < size; byte++) {
		copy = copy_of(image, size);
		((unsigned char *)copy)[byte] ^= 1 << byte % 8;
		expect_broken(copy, size, "");
		free(copy);
	}
	free(image);
	rf_diags_done(&diags);
}

#define BREAK(message, statement)                                                                  \
	do {                                                                                       \
		void *copy = copy_of(image, size);                                                 \
		struct rf_image *h = copy;                                                         \
		__u64 *words = copy;                                                               \
                                                                                                   \
		(void)h, (void)words;                                                              \
		statement;                                                                         \
		seal(copy, size);                                                                  \
		expect_broken(copy, size, message);                                                \
		free(copy);                                                                        \
	} while (0)

#define ACCEPT(n) ((struct rf_accept *)(words + h->accepts + (n)*RF_ACCEPT_WORDS))
#define CHILDREN(n) ((uint32_t *)(words + h->nodes + (n)*RF_NODE_WORDS))
#define LEAF(n) ((struct rf_leaf *)(words + h->leaves) + (n))
#define PORT(n) ((struct rf_port *)(words + h->ports) + (n))
#define RULE(n) ((struct rf_rule *)(words + h->rules) + (n))

static uint32_t *cells_of(void *image)
{
	return (uint32_t *)((__u64 *)image + ((struct rf_image *)image)->cells);
}

static uint32_t some_cell(void *image)
{
	for (uint32_t i = 0; i < ((struct rf_image *)image)->ncells; i++)
		if (cells_of(image)[i])
			return i;
	fail_msg("no cell");
	return 0;
}

static void test_contents(void **state)
{
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(text, &diags, &size);
	uint32_t cell = some_cell(image);

	(void)state;
	BREAK("not an image", h->magic++);
	BREAK("version", h->version++);
	BREAK("in the header", h->size += 8);
	BREAK("states begin", h->states++);
	BREAK("cells begin", h->nstates++);
	BREAK("cells begin", h->nstates = 0xffffffff);
	BREAK("cells begin", h->cells--);
	BREAK("accepts begin", h->ncells = 0);
	BREAK("rules begin", h->naccepts = 0x80000000);
	BREAK("nodes begin", h->nrules = 0);
	BREAK("fill", h->nstrings += 8);
	BREAK("fill", h->nstrings = 0xfffffff8);
	BREAK("start state", h->start = 0);
	BREAK("start state", h->start = h->nstates);
	BREAK("unknown rights", h->detached = 0x40);
	BREAK("classes", h->cls[0] = 255);
	BREAK("accepts begin", h->ncells += 2);
	BREAK("state 0", words[h->states] = 1);
	BREAK("state 1", words[h->states + 1] = RF_STATE(h->ncells, 1, 0, 0));
	BREAK("state 1", words[h->states + 1] = RF_STATE(0xffffff, 1, 0, 0));
	BREAK("state 1", words[h->states + 1] = RF_STATE(0, 0, 0, 0));
	BREAK("state 1", words[h->states + 1] = RF_STATE(0, h->nstates, 0, 0));
	BREAK("state 1", words[h->states + 1] = RF_STATE(0, 1, 0, h->naccepts));
	BREAK("flat", words[h->states + h->start] |= 0x8000);
	BREAK("cell", cells_of(copy)[cell] = RF_CELL(0xfe, 1));
	BREAK("cell", cells_of(copy)[cell] = RF_CELL(0, 0));
	BREAK("cell", cells_of(copy)[cell] = RF_CELL(0, h->nstates));
	BREAK("cell", cells_of(copy)[cell] = RF_CELL(-1, 1));
	BREAK("accept 0", ACCEPT(0)->allow = 1);
	BREAK("accept 1", ACCEPT(1)->allow = 0x40);
	BREAK("accept 1", ACCEPT(1)->deny = ACCEPT(1)->allow = 1);
	BREAK("accept 1", ACCEPT(1)->rule[0] = h->nrules + 1);
	BREAK("accept 1", ACCEPT(1)->audited = h->naccepts);
	BREAK("accept 1", ACCEPT(1)->pad = 1);
	BREAK("accept 1", ACCEPT(1)->pad2[2] = 1);
	BREAK("nodes begin", h->nodes++);
	BREAK("leaves begin", h->nnodes++);
	BREAK("ports begin", h->nleaves++);
	BREAK("strings begin", h->nports--);
	BREAK("without leaves", h->nleaves = 0);
	BREAK("root", h->root = 1);
	BREAK("root", h->root = RF_NODE_LEAF | h->nleaves);
	BREAK("unknown rights", h->pad = 1);
	BREAK("node 0", CHILDREN(0)[0] = 0);
	BREAK("node 0", CHILDREN(0)[5] = h->nnodes);
	BREAK("node 0", CHILDREN(0)[5] = RF_NODE_LEAF | h->nleaves);
	BREAK("leaf 0", LEAF(0)->first = 1);
	BREAK("leaf 0", LEAF(0)->ntcp = 0);
	BREAK("leaf", LEAF(0)->nudp++);
	BREAK("leaf 0", PORT(0)->last = 7);
	BREAK("leaf 0", PORT(0)->verdict = RF_NET_ALLOW);
	BREAK("leaf 0", PORT(0)->audited = RF_NET_VERDICTS);
	BREAK("leaf 0", PORT(0)->rule = h->nrules + 1);
	BREAK("rule 1", RULE(0)->file = h->nstrings);
	BREAK("rule 1", RULE(0)->text = 0xffffffff);
	BREAK("rule 1", RULE(0)->flags = 2);
	BREAK("strings do not end", ((char *)(words + h->strings))[h->nstrings - 1] = 'x');
	free(image);
	rf_diags_done(&diags);
}

/*
 * Random damage with a right checksum: what passes must be safe to step through
 * (the address sanitizer watches) and never lead out of range.
 */
static void test_damage(void **state)
{
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(text, &diags, &size);
	unsigned int passed = 0;

	(void)state;
	srand(1);
	for (unsigned int round = 0; round < 20000; round++) {
		void *copy = copy_of(image, size);
		const struct rf_image *h = copy;
		struct rf_diags ignored = {0};

		for (int n = rand() % 4; n >= 0; n--)
			((unsigned char *)copy)[rand() % size] ^= 1 << rand() % 8;
		seal(copy, size);
		if (!rf_image_verify(copy, size, &ignored)) {
			uint32_t at = h->start;

			passed++;
			for (unsigned int i = 0; i < 300; i++) {
				struct rf_verdict v;

				at = rf_step(copy, RF_NO_MASK, at,
					     i < 256 ? i : (unsigned int)rand());
				assert_in_range(at, 1, h->nstates - 1);
				rf_state_flat(copy, RF_NO_MASK, at);
				rf_verdict_begin(&v, RF_ALL_RIGHTS);
				rf_verdict_add(&v, copy, RF_NO_MASK, at, 0, 0);
				rf_verdict_end(&v);
				assert_in_range(v.rule, 0, h->nrules);
			}
			for (unsigned int i = 0; i < 50; i++) {
				uint8_t address[16] = {
					[10] = 0xff, [11] = 0xff, [12] = rand(), [13] = rand()};
				uint64_t entry =
					rf_net_find(copy, RF_NO_MASK, address, i % 2, rand());

				assert_in_range(RF_PORT_RULE(entry), 0, h->nrules);
			}
		}
		rf_diags_done(&ignored);
		free(copy);
	}
	assert_in_range(passed, 100, 19900);
	free(image);
	rf_diags_done(&diags);
}

/* Flat says: from here on nothing differs. Holds for every state, and some are flat. */
static void test_flat(void **state)
{
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(HEAD "files:\n  - allow: read\n    paths: [/usr]\n"
				      "  - deny: all\n    paths: [/usr/x/y, \"/w/**/.env\"]\n",
				 &diags, &size);

	(void)state;
#define FLAT(path) rf_state_flat(image, RF_NO_MASK, rf_image_state(image, path, strlen(path)))
	assert_false(FLAT("/"));
	assert_false(FLAT("/usr"));
	assert_false(FLAT("/usr/x"));
	assert_false(FLAT("/w"));
	assert_false(FLAT("/w/z"));
	assert_true(FLAT("/usr/x/y"));
	assert_true(FLAT("/usr/x/z"));
	assert_true(FLAT("/usr/b"));
	assert_true(FLAT("/b"));
	assert_true(FLAT("/w/z/.env"));
	free(image);
	rf_diags_done(&diags);
}

static void test_class(void **state)
{
	(void)state;
	assert_int_equal(rf_image_class(320), RF_CLASS_16K);
	assert_int_equal(rf_image_class(16384), RF_CLASS_16K);
	assert_int_equal(rf_image_class(16392), RF_CLASS_128K);
	assert_int_equal(rf_image_class(1 << 20), RF_CLASS_1M);
	assert_int_equal(rf_image_class(4 << 20), RF_CLASS_4M);
	assert_int_equal(rf_image_class((4 << 20) + 8), -E2BIG);
}

static void test_rules(void **state)
{
	struct rf_image_rule rule;
	struct rf_diags diags = {0};
	size_t size;
	void *image = test_image(text, &diags, &size);

	(void)state;
	assert_false(rf_image_rule(image, 0, &rule));
	assert_false(rf_image_rule(image, 9, &rule));
	assert_true(rf_image_rule(image, 2, &rule));
	assert_string_equal(rule.text, "allow read,exec /a/*b*/**/c");
	assert_int_equal(rule.line, 5);
	assert_int_equal(rule.column, 19);
	free(image);
	rf_diags_done(&diags);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header), cmocka_unit_test(test_contents),
		cmocka_unit_test(test_damage), cmocka_unit_test(test_flat),
		cmocka_unit_test(test_class),  cmocka_unit_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
