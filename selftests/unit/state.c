/* SPDX-License-Identifier: BSD-2-Clause */
/* State files: there and back, and files that are not whole. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/state.h"

#include "selftests/unit/scratch.h"

static int dir = -1;

static int setup(void **state)
{
	if (scratch_setup(state))
		return -1;
	dir = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	close(dir);
	return scratch_teardown(state);
}

static struct rf_session_state sample(void)
{
	struct rf_session_state s = {
		.kernel = {.id = 17,
			   .word = RF_WORD(0x1234567890ull, RF_CLASS_1M, 77, RF_WORD_AUDIT),
			   .cgroup = UINT64_MAX - 5,
			   .slot = 4095},
		.image = {.class = RF_CLASS_1M, .slot = 77},
		.name = strdup("p-0000ff"),
		.policy = strdup("p"),
		.policy_file = strdup("/etc/\\xff.yaml"),
		.cgroup = strdup("/sys/fs/cgroup/ringfence/p-0000ff"),
		.log = strdup("/var/log/ringfence/p-0000ff.jsonl"),
		.started = strdup("2026-01-01T00:00:00.000000000Z"),
		.user = strdup("me"),
		.workspace = strdup("/w"),
		.limits = {.memory = 1 << 30, .cpu = 1500},
		.command = json_pack("[s, s]", "make", "a\\x0ab"),
		.uid = 4294967294u,
		.pid = 12,
		.pid_start = 99999999999,
		.seq = 5,
		.lost = {6, 7},
	};

	s.n_anchors = 3;
	s.anchors = calloc(3, sizeof(*s.anchors));
	for (unsigned int i = 0; i < 3; i++) {
		s.anchors[i].key = (struct rf_anchor_key){.policy = 0x1234567890ull,
							  .ino = UINT64_MAX - i,
							  .subvol = i,
							  .super = 0xfff00001,
							  .generation = 0xffffffff};
		s.anchors[i].name = i;
		s.anchors[i].path = strdup(i ? "/b\xff" : "/");
	}
	rf_anchor_names_sort(s.anchors, &s.n_anchors);
	return s;
}

static void round_trip(void **state)
{
	struct rf_session_state a = sample(), b;
	struct stat st;

	(void)state;
	assert_int_equal(rf_session_state_save(dir, &a), 0);
	assert_int_equal(fstatat(dir, "17.json", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(rf_session_state_load(dir, "17.json", &b), 0);
	assert_memory_equal(&a.kernel, &b.kernel, sizeof(a.kernel));
	assert_memory_equal(&a.image, &b.image, sizeof(a.image));
	assert_string_equal(a.name, b.name);
	assert_string_equal(a.policy, b.policy);
	assert_string_equal(a.policy_file, b.policy_file);
	assert_string_equal(a.cgroup, b.cgroup);
	assert_string_equal(a.log, b.log);
	assert_string_equal(a.started, b.started);
	assert_string_equal(a.user, b.user);
	assert_null(b.cwd);
	assert_string_equal(b.workspace, "/w");
	assert_true(b.limits.memory == 1 << 30 && b.limits.cpu == 1500 && !b.limits.tasks);
	assert_true(json_equal(a.command, b.command));
	assert_int_equal(a.uid, b.uid);
	assert_int_equal(a.pid, b.pid);
	assert_true(a.pid_start == b.pid_start && a.seq == b.seq);
	assert_memory_equal(a.lost, b.lost, sizeof(a.lost));
	assert_int_equal(b.n_anchors, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_memory_equal(&a.anchors[i].key, &b.anchors[i].key, sizeof(a.anchors[i].key));
		assert_int_equal(a.anchors[i].name, b.anchors[i].name);
		assert_string_equal(a.anchors[i].path, b.anchors[i].path);
		assert_string_equal(
			rf_anchor_names_find(b.anchors, 3, &a.anchors[i].key, a.anchors[i].name),
			a.anchors[i].path);
	}
	/* Replaced as a whole; no draft is left. */
	a.seq = 6;
	assert_int_equal(rf_session_state_save(dir, &a), 0);
	assert_int_equal(faccessat(dir, "17.json.new", F_OK, 0), -1);
	assert_int_equal(rf_session_state_remove(dir, 17), 0);
	assert_int_equal(rf_session_state_remove(dir, 17), 0);
	assert_int_equal(rf_session_state_load(dir, "17.json", &b), -ENOENT);
	rf_session_state_done(&a);
	rf_session_state_done(&b);
}

/* What is there `n` times the image, each with another number in it, in the order of adding. */
static void expect_images(size_t n, const unsigned int *numbers)
{
	void *images;
	size_t size;

	assert_int_equal(rf_session_images_load(dir, 17, &images, &size), 0);
	assert_int_equal(size, n * sizeof(struct rf_image));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(((struct rf_image *)images)[i].nrules, numbers[i]);
	free(images);
}

static void images(void **state)
{
	static const unsigned int numbers[] = {1, 2, 3};
	struct rf_image image = {.size = sizeof(image)};
	struct stat st;
	int fd;

	(void)state;
	expect_images(0, NULL);
	for (size_t i = 0; i < 4; i++) {
		image.nrules = numbers[i % 2];
		assert_int_equal(rf_session_images_add(dir, 17, &image), 0);
	}
	expect_images(2, numbers);
	/* One that was being written when the daemon was killed. */
	fd = openat(dir, "17.images", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, &image, sizeof(image) - 1), sizeof(image) - 1);
	close(fd);
	expect_images(2, numbers);
	image.nrules = 3;
	assert_int_equal(rf_session_images_add(dir, 17, &image), 0);
	expect_images(3, numbers);
	assert_int_equal(fstatat(dir, "17.images", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, 3 * sizeof(image));
	assert_int_equal(rf_session_state_remove(dir, 17), 0);
	expect_images(0, NULL);
}

static void first_of_equals(void **state)
{
	struct rf_anchor_name names[4];
	struct rf_anchor_key key = {.policy = 1, .ino = 2}, other = {.policy = 1, .ino = 3};
	size_t n = 4;

	(void)state;
	names[0] = (struct rf_anchor_name){other, 0, strdup("/o")};
	names[1] = (struct rf_anchor_name){key, 1, strdup("/first")};
	names[2] = (struct rf_anchor_name){key, 1, strdup("/second")};
	names[3] = (struct rf_anchor_name){key, 0, strdup("/zero")};
	rf_anchor_names_sort(names, &n);
	assert_int_equal(n, 3);
	assert_string_equal(rf_anchor_names_find(names, n, &key, 1), "/first");
	assert_string_equal(rf_anchor_names_find(names, n, &key, 0), "/zero");
	assert_string_equal(rf_anchor_names_find(names, n, &other, 0), "/o");
	assert_null(rf_anchor_names_find(names, n, &other, 1));
	for (size_t i = 0; i < n; i++)
		free(names[i].path);
}

/* Every cut of the file, and every field that is not what it should be. */
static void not_whole(void **state)
{
	struct rf_session_state a = sample(), b;
	_cleanup_json_ json_t *json = NULL;
	_cleanup_free_ char *text = NULL;
	const char *key;
	json_t *value;
	void *next;

	(void)state;
	assert_int_equal(rf_session_state_save(dir, &a), 0);
	json = json_load_file(scratch_path("17.json"), 0, NULL);
	text = json_dumps(json, JSON_COMPACT);
	for (size_t n = 0; n < strlen(text); n++) {
		scratch_write("17.json", "%.*s", (int)n, text);
		assert_int_equal(rf_session_state_load(dir, "17.json", &b), -EBADMSG);
	}
	json_object_foreach_safe(json, next, key, value)
	{
		_cleanup_json_ json_t *copy = json_copy(json);

		json_object_set_new(copy, key,
				    json_is_object(value) ? json_array() : json_object());
		assert_int_equal(json_dump_file(copy, scratch_path("17.json"), 0), 0);
		assert_int_equal(rf_session_state_load(dir, "17.json", &b), -EBADMSG);
	}
	scratch_write("18.json", "%s", text); /* another's number */
	assert_int_equal(rf_session_state_load(dir, "18.json", &b), -EBADMSG);
	json_object_set_new(json, "slot", json_integer(RF_MAX_SESSIONS));
	assert_int_equal(json_dump_file(json, scratch_path("17.json"), 0), 0);
	assert_int_equal(rf_session_state_load(dir, "17.json", &b), -EBADMSG);
	json_object_set_new(json, "slot", json_integer(1));
	json_object_set_new(json, "image", json_integer(78)); /* not that of the word */
	assert_int_equal(json_dump_file(json, scratch_path("17.json"), 0), 0);
	assert_int_equal(rf_session_state_load(dir, "17.json", &b), -EBADMSG);
	rf_session_state_done(&a);
}

static void pids(void **state)
{
	(void)state;
	assert_true(rf_pid_start(getpid()) > 0);
	assert_true(rf_pid_start(1) < rf_pid_start(getpid()));
	assert_true(rf_pid_start(0x7fffffff) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(images),
		cmocka_unit_test(first_of_equals),
		cmocka_unit_test(not_whole),
		cmocka_unit_test(pids),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
