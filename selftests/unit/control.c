/* SPDX-License-Identifier: BSD-2-Clause */
/* The control protocol on the wire: what comes through, and what does not. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/control.h"

static int pair[2];

static int setup(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
}

static int teardown(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

/* The number of descriptors that this process has open. */
static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -1;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void send_raw(const void *bytes, size_t size, const int *fds, size_t n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = {0};
	struct iovec body = {.iov_base = (void *)bytes, .iov_len = size};
	struct msghdr head = {.msg_iov = &body, .msg_iovlen = 1};

	if (n) {
		struct cmsghdr *c;

		head.msg_control = control;
		head.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	assert_true(sendmsg(pair[0], &head, MSG_NOSIGNAL) >= 0);
}

static void refused(int error)
{
	json_t *message = NULL;
	int fds[RF_CONTROL_FDS];
	size_t n = 99;

	assert_int_equal(rf_control_receive(pair[1], &message, fds, &n), error);
	assert_null(message);
	assert_int_equal(n, 99);
}

static void messages(void **state)
{
	_cleanup_json_ json_t *message = json_pack("{s:s, s:i}", "op", "h\xc3\xa4llo", "n", 5);
	_cleanup_json_ json_t *got = NULL;
	int fds[RF_CONTROL_FDS];
	size_t n;

	(void)state;
	assert_int_equal(rf_control_send(pair[0], message, NULL, 0), 0);
	assert_int_equal(rf_control_receive(pair[1], &got, fds, &n), 0);
	assert_int_equal(n, 0);
	assert_true(json_equal(message, got));
	refused(-EAGAIN);
	close(pair[0]);
	pair[0] = -1;
	refused(-ECONNRESET);
}

static void descriptors(void **state)
{
	_cleanup_json_ json_t *message = json_pack("{s:s}", "op", "x");
	_cleanup_json_ json_t *got = NULL;
	int fds[RF_CONTROL_FDS], send[RF_CONTROL_FDS + 1];
	struct stat a, b;
	size_t n;

	(void)state;
	for (size_t i = 0; i < RF_COUNT(send); i++)
		send[i] = i % 2 ? STDIN_FILENO : pair[0];
	assert_int_equal(rf_control_send(pair[0], message, send, RF_CONTROL_FDS + 1), -E2BIG);
	assert_int_equal(rf_control_send(pair[0], message, send, RF_CONTROL_FDS), 0);
	assert_int_equal(rf_control_receive(pair[1], &got, fds, &n), 0);
	assert_int_equal(n, RF_CONTROL_FDS);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		assert_int_equal(fstat(fds[i], &a), 0);
		assert_int_equal(fstat(send[i], &b), 0);
		assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
		close(fds[i]);
	}
}

/* Longer than a datagram, with descriptors of its own. */
static void long_messages(void **state)
{
	_cleanup_json_ json_t *message = json_object();
	_cleanup_json_ json_t *got = NULL;
	_cleanup_free_ char *text = malloc(RF_CONTROL_MAX + 1);
	int fds[RF_CONTROL_FDS], before = open_fds();
	size_t n;

	(void)state;
	memset(text, 'a', RF_CONTROL_MAX);
	text[RF_CONTROL_MAX] = 0;
	json_object_set_new(message, "text", json_string(text));
	assert_int_equal(rf_control_send(pair[0], message, NULL, 0), -EMSGSIZE);
	text[RF_CONTROL_MAX / 2] = 0;
	json_object_set_new(message, "text", json_string(text));
	assert_int_equal(rf_control_send(pair[0], message, &pair[0], 1), 0);
	assert_int_equal(rf_control_receive(pair[1], &got, fds, &n), 0);
	assert_int_equal(n, 1);
	assert_true(json_equal(message, got));
	close(fds[0]);
	assert_int_equal(open_fds(), before);
}

static void malformed(void **state)
{
	static const char *const bad[] = {"x",
					  "[]",
					  "3",
					  "{",
					  "{} {}",
					  "{\"a\":1,\"a\":2}",
					  "{\"a\":\"\xff\"}",
					  "{\"a\":\"\\u0000\"}"};
	static const char in_memfd[] = "{\"memfd\":true}";
	_cleanup_free_ char *deep = malloc(60000);
	_cleanup_free_ char *big = calloc(1, RF_CONTROL_INLINE + 1);
	int before = open_fds(), fds[250], pipes[2], memfd;

	(void)state;
	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		send_raw(bad[i], strlen(bad[i]), &pair[0], 1);
		refused(-EPROTO);
	}
	memset(deep, '[', 60000);
	send_raw(deep, 60000, NULL, 0);
	refused(-EPROTO);
	send_raw(big, RF_CONTROL_INLINE + 1, &pair[0], 1); /* cut */
	refused(-EPROTO);
	for (size_t i = 0; i < RF_COUNT(fds); i++)
		fds[i] = pair[0];
	send_raw("{}", 2, fds, RF_COUNT(fds)); /* more than are ever expected */
	refused(-EPROTO);
	/* Says that it is in a memfd: none there, a pipe, an empty one, one that is too big. */
	send_raw(in_memfd, strlen(in_memfd), NULL, 0);
	refused(-EPROTO);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	send_raw(in_memfd, strlen(in_memfd), pipes, 1);
	refused(-EPROTO);
	close(pipes[0]);
	close(pipes[1]);
	memfd = memfd_create("x", MFD_CLOEXEC);
	send_raw(in_memfd, strlen(in_memfd), &memfd, 1);
	refused(-EPROTO);
	assert_int_equal(ftruncate(memfd, RF_CONTROL_MAX + 1), 0);
	send_raw(in_memfd, strlen(in_memfd), &memfd, 1);
	refused(-EPROTO);
	close(memfd);
	assert_int_equal(open_fds(), before);
}

static void diagnostics(void **state)
{
	_cleanup_diags_ struct rf_diags diags = {0}, back = {0};
	_cleanup_json_ json_t *json = NULL, *odd = NULL;

	(void)state;
	rf_diag(&diags, RF_WARNING, "p.yaml", 3, 4, "so", "message %d", 1);
	rf_diag(&diags, RF_ERROR, NULL, 0, 0, NULL, "bytes \xff");
	json = rf_control_diags(&diags);
	rf_control_take_diags(json, &back);
	assert_int_equal(back.n, 2);
	assert_int_equal(back.errors, 1);
	assert_int_equal(back.items[0].severity, RF_WARNING);
	assert_string_equal(back.items[0].file, "p.yaml");
	assert_int_equal(back.items[0].line, 3);
	assert_int_equal(back.items[0].column, 4);
	assert_string_equal(back.items[0].hint, "so");
	assert_string_equal(back.items[0].message, "message 1");
	assert_null(back.items[1].file);
	assert_null(back.items[1].hint);
	assert_string_equal(back.items[1].message, "bytes \\xff");
	/* What is not what it should be is an error all the same. */
	odd = json_pack("[n, i, {s:i}, {s:s, s:s}]", 3, "message", 4, "severity", "?", "message",
			"m");
	rf_control_take_diags(odd, &back);
	assert_int_equal(back.n, 6);
	assert_int_equal(back.errors, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(messages, setup, teardown),
		cmocka_unit_test_setup_teardown(descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(long_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(malformed, setup, teardown),
		cmocka_unit_test(diagnostics),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
