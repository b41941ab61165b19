/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the control protocol on the wire, see control.h. A message too long for
 * a datagram is put into a memfd, which goes as the last descriptor of IN_MEMFD.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/control.h"
#include "user/text.h"

#define IN_MEMFD "{\"memfd\":true}"
#define KERNEL_FDS 253 /* SCM_MAX_FD: more cannot arrive */

static int put_in_memfd(const char *text, size_t size, int *ret_fd)
{
	_cleanup_fd_ int fd = memfd_create("ringfence-message", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	while (size) {
		ssize_t n = write(fd, text, size);

		if (n < 0)
			return -errno;
		text += n;
		size -= (size_t)n;
	}
	*ret_fd = rf_steal_fd(&fd);
	return 0;
}

int rf_control_send(int fd, const json_t *message, const int *fds, size_t n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * (RF_CONTROL_FDS + 1))] = {0};
	_cleanup_fd_ int memfd = -1;
	_cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);
	struct iovec body;
	struct msghdr head = {.msg_iov = &body, .msg_iovlen = 1};

	if (n > RF_CONTROL_FDS)
		return -E2BIG;
	if (!text)
		return -ENOMEM;
	body = (struct iovec){.iov_base = text, .iov_len = strlen(text)};
	if (body.iov_len > RF_CONTROL_MAX)
		return -EMSGSIZE;
	if (body.iov_len > RF_CONTROL_INLINE) {
		int err = put_in_memfd(text, body.iov_len, &memfd);

		if (err)
			return err;
		body = (struct iovec){.iov_base = text, .iov_len = strlen(IN_MEMFD)};
		memcpy(text, IN_MEMFD, body.iov_len);
	}
	if (n || memfd >= 0) {
		size_t all = n + (memfd >= 0);
		struct cmsghdr *c;

		head.msg_control = control;
		head.msg_controllen = CMSG_SPACE(sizeof(int) * all);
		c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * all);
		if (n)
			memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
		if (memfd >= 0)
			memcpy(CMSG_DATA(c) + sizeof(int) * n, &memfd, sizeof(int));
	}
	while (sendmsg(fd, &head, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/*
 * The message in a memfd. That it is one is checked first: reading another kind of
 * file may block for as long as its owner likes.
 */
static int read_memfd(int fd, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t size, at = 0;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st))
		return -EPROTO;
	if (st.st_size <= 0 || st.st_size > RF_CONTROL_MAX)
		return -EPROTO;
	size = (size_t)st.st_size;
	text = malloc(size);
	if (!text)
		return -ENOMEM;
	while (at < size) {
		ssize_t n = pread(fd, text + at, size - at, (off_t)at);

		if (n <= 0)
			return -EPROTO;
		at += (size_t)n;
	}
	*ret_text = rf_steal(&text);
	*ret_size = size;
	return 0;
}

static int parse(char *text, size_t size, int *fds, size_t *n, json_t **ret_message)
{
	_cleanup_free_ char *long_text = NULL;
	json_t *message;

	if (size == strlen(IN_MEMFD) && !memcmp(text, IN_MEMFD, size)) {
		int err;

		if (!*n)
			return -EPROTO;
		--*n;
		err = read_memfd(fds[*n], &long_text, &size);
		close(fds[*n]);
		if (err)
			return err;
		text = long_text;
	}
	message = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(message)) {
		json_decref(message);
		return -EPROTO;
	}
	*ret_message = message;
	return 0;
}

int rf_control_receive(int fd, json_t **ret_message, int fds[RF_CONTROL_FDS], size_t *ret_n)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * KERNEL_FDS)];
	int got[KERNEL_FDS];
	_cleanup_free_ char *text = malloc(RF_CONTROL_INLINE);
	struct iovec body = {.iov_base = text, .iov_len = RF_CONTROL_INLINE};
	struct msghdr head = {.msg_iov = &body,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control)};
	size_t n = 0;
	ssize_t size;
	int err;

	if (!text)
		return -ENOMEM;
	do
		size = recvmsg(fd, &head, MSG_CMSG_CLOEXEC);
	while (size < 0 && errno == EINTR);
	if (size < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c)) {
		size_t have;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		have = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (have > KERNEL_FDS - n) /* cannot be: the kernel sends one such record */
			have = KERNEL_FDS - n;
		memcpy(got + n, CMSG_DATA(c), have * sizeof(int));
		n += have;
	}
	if (size == 0)
		err = -ECONNRESET;
	else if (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		err = -EPROTO;
	else
		err = parse(text, (size_t)size, got, &n, ret_message);
	if (!err && n > RF_CONTROL_FDS) {
		json_decref(*ret_message);
		*ret_message = NULL;
		err = -EPROTO;
	}
	if (err) {
		close_all(got, n);
		return err;
	}
	memcpy(fds, got, n * sizeof(int));
	*ret_n = n;
	return 0;
}

/* Text of a diagnostic; bytes that are no text (in a path) are escaped. */
static json_t *diag_string(const char *text)
{
	_cleanup_free_ char *escaped = NULL;
	json_t *json = json_string(text);

	if (json)
		return json;
	escaped = rf_escape(text, strlen(text));
	return escaped ? json_string(escaped) : NULL;
}

json_t *rf_control_diags(const struct rf_diags *diags)
{
	json_t *array = json_array();

	for (size_t i = 0; i < diags->n; i++) {
		const struct rf_diag *d = &diags->items[i];
		json_t *item =
			json_pack("{s:s, s:i, s:i}", "severity", rf_severity_name(d->severity),
				  "line", (int)d->line, "column", (int)d->column);

		json_object_set_new(item, "message", diag_string(d->message));
		if (d->file)
			json_object_set_new(item, "file", diag_string(d->file));
		if (d->hint)
			json_object_set_new(item, "hint", diag_string(d->hint));
		json_array_append_new(array, item);
	}
	return array;
}

void rf_control_take_diags(const json_t *array, struct rf_diags *diags)
{
	const json_t *item;
	size_t i;

	json_array_foreach (array, i, item) {
		const char *name = json_string_value(json_object_get(item, "severity"));
		const char *message = json_string_value(json_object_get(item, "message"));
		enum rf_severity severity = RF_ERROR;

		for (enum rf_severity s = RF_NOTE; name && s <= RF_ERROR; s++)
			if (!strcmp(name, rf_severity_name(s)))
				severity = s;
		rf_diag(diags, severity, json_string_value(json_object_get(item, "file")),
			(unsigned int)json_integer_value(json_object_get(item, "line")),
			(unsigned int)json_integer_value(json_object_get(item, "column")),
			json_string_value(json_object_get(item, "hint")), "%s",
			message ? message : "unknown error");
	}
}
