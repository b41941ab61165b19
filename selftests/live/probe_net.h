/* SPDX-License-Identifier: BSD-2-Clause */
/* The probe's acts on sockets: many ways to one address. */
#ifndef RF_LIVE_PROBE_NET_H
#define RF_LIVE_PROBE_NET_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

/* Of probe.c. */
static int result(int r);
static int not_attempted(const char *what);

struct peer {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	socklen_t size;
	int family;
};

static bool peer_of(const char *host, const char *port, struct peer *ret_peer)
{
	struct peer peer = {0};
	uint16_t number = htons((uint16_t)atoi(port));

	if (inet_pton(AF_INET, host, &peer.address.v4.sin_addr) == 1) {
		peer.address.v4.sin_port = number;
		peer.size = sizeof(peer.address.v4);
		peer.family = AF_INET;
	} else if (inet_pton(AF_INET6, host, &peer.address.v6.sin6_addr) == 1) {
		peer.address.v6.sin6_port = number;
		peer.size = sizeof(peer.address.v6);
		peer.family = AF_INET6;
	} else {
		errno = EINVAL;
		return false;
	}
	peer.address.any.sa_family = (sa_family_t)peer.family;
	*ret_peer = peer;
	return true;
}

static int socket_of(int family, const char *proto)
{
	bool udp = !strcmp(proto, "udp");

	return socket(family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC,
		      !strcmp(proto, "mptcp") ? IPPROTO_MPTCP : 0);
}

/* Of a socket that is connected: so that its peer sees something, of UDP too. */
static int say_hello(int fd)
{
	return send(fd, "x", 1, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static int way_connect(int fd, struct peer *peer)
{
	return connect(fd, &peer->address.any, peer->size) < 0 ? -1 : say_hello(fd);
}

static int way_nonblocking(int fd, struct peer *peer)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (connect(fd, &peer->address.any, peer->size) < 0 && errno != EINPROGRESS)
		return -1;
	return 0;
}

static int way_dup(int fd, struct peer *peer)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 100);

	close(fd);
	return way_connect(copy, peer);
}

static int way_fork(int fd, struct peer *peer)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(way_connect(fd, peer) < 0 ? errno : 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}

static int way_sendto(int fd, struct peer *peer)
{
	return (int)sendto(fd, "x", 1, 0, &peer->address.any, peer->size);
}

static struct msghdr message_to(struct peer *peer, struct iovec *bytes)
{
	*bytes = (struct iovec){(void *)"x", 1};
	return (struct msghdr){.msg_name = &peer->address,
			       .msg_namelen = peer->size,
			       .msg_iov = bytes,
			       .msg_iovlen = 1};
}

static int way_sendmsg(int fd, struct peer *peer)
{
	struct iovec bytes;
	struct msghdr message = message_to(peer, &bytes);

	return (int)sendmsg(fd, &message, 0);
}

static int way_sendmmsg(int fd, struct peer *peer)
{
	struct iovec bytes;
	struct mmsghdr messages[2] = {{.msg_hdr = message_to(peer, &bytes)},
				      {.msg_hdr = message_to(peer, &bytes)}};

	return sendmmsg(fd, messages, 2, 0);
}

static int way_bound_sendto(int fd, struct peer *peer)
{
	struct peer any = {.family = peer->family};

	any.address.any.sa_family = (sa_family_t)peer->family;
	if (bind(fd, &any.address.any, peer->size) < 0)
		return -1;
	return way_sendto(fd, peer);
}

static int way_fast_open(int fd, struct peer *peer)
{
	return (int)sendto(fd, "x", 1, MSG_FASTOPEN, &peer->address.any, peer->size);
}

static int way_fast_open_sendmsg(int fd, struct peer *peer)
{
	struct iovec bytes;
	struct msghdr message = message_to(peer, &bytes);

	return (int)sendmsg(fd, &message, MSG_FASTOPEN);
}

static int way_fast_open_connect(int fd, struct peer *peer)
{
	int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof(one)) < 0)
		return -1;
	return way_connect(fd, peer);
}

/* UDP of inet takes an address of no family as its own. */
static int way_unspec_sendto(int fd, struct peer *peer)
{
	peer->address.any.sa_family = AF_UNSPEC;
	return way_sendto(fd, peer);
}

/* Cut so short that the kernel would not read it: there is no address behind. */
static int way_short(int fd, struct peer *peer)
{
	peer->size = peer->family == AF_INET ? 15 : 23;
	return way_connect(fd, peer);
}

static int way_short_sendto(int fd, struct peer *peer)
{
	peer->size = 8;
	return way_sendto(fd, peer);
}

/* One request to a ring of its own; -1 with errno. */
static int uring(const struct io_uring_sqe *request)
{
	struct io_uring_params params = {0};
	int ring = (int)syscall(SYS_io_uring_setup, 2, &params), result;
	const struct io_uring_cqe *done;
	struct io_uring_sqe *requests;
	char *submissions, *completions;
	uint32_t *array, *tail;

	if (ring < 0)
		return -1;
	submissions = mmap(NULL, params.sq_off.array + params.sq_entries * sizeof(uint32_t),
			   PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	completions = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(*done),
			   PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	requests = mmap(NULL, params.sq_entries * sizeof(*requests), PROT_READ | PROT_WRITE,
			MAP_SHARED, ring, IORING_OFF_SQES);
	if (submissions == MAP_FAILED || completions == MAP_FAILED || requests == MAP_FAILED)
		return -1;
	requests[0] = *request;
	array = (uint32_t *)(submissions + params.sq_off.array);
	tail = (uint32_t *)(submissions + params.sq_off.tail);
	array[0] = 0;
	__atomic_store_n(tail, 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return -1;
	done = (const struct io_uring_cqe *)(completions + params.cq_off.cqes);
	result = __atomic_load_n(&done->res, __ATOMIC_ACQUIRE);
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

static int uring_connect(int fd, struct peer *peer, unsigned char flags)
{
	const struct io_uring_sqe request = {.opcode = IORING_OP_CONNECT,
					     .flags = flags,
					     .fd = fd,
					     .addr = (uintptr_t)&peer->address,
					     .off = peer->size};

	return uring(&request) < 0 ? -1 : say_hello(fd);
}

static int way_uring_connect(int fd, struct peer *peer)
{
	return uring_connect(fd, peer, 0);
}

/* By a worker thread of the kernel. */
static int way_uring_worker(int fd, struct peer *peer)
{
	return uring_connect(fd, peer, IOSQE_ASYNC);
}

static int way_uring_sendmsg(int fd, struct peer *peer)
{
	struct iovec bytes;
	struct msghdr message = message_to(peer, &bytes);
	const struct io_uring_sqe request = {
		.opcode = IORING_OP_SENDMSG, .fd = fd, .addr = (uintptr_t)&message, .len = 1};

	return uring(&request);
}

/* net WAY PROTO ADDRESS PORT; "inet6:WAY" takes an inet6 socket for any address */
static int act_net(char **args)
{
	static const struct {
		const char *name;
		int (*go)(int fd, struct peer *peer);
	} ways[] = {
		{"connect", way_connect},
		{"nonblocking", way_nonblocking},
		{"dup", way_dup},
		{"fork", way_fork},
		{"sendto", way_sendto},
		{"sendmsg", way_sendmsg},
		{"sendmmsg", way_sendmmsg},
		{"bound-sendto", way_bound_sendto},
		{"fast-open", way_fast_open},
		{"fast-open-sendmsg", way_fast_open_sendmsg},
		{"fast-open-connect", way_fast_open_connect},
		{"unspec-sendto", way_unspec_sendto},
		{"short", way_short},
		{"short-sendto", way_short_sendto},
		{"uring-connect", way_uring_connect},
		{"uring-worker", way_uring_worker},
		{"uring-sendmsg", way_uring_sendmsg},
	};
	bool inet6 = !strncmp(args[0], "inet6:", strlen("inet6:"));
	const char *way = args[0] + (inet6 ? strlen("inet6:") : 0);
	struct peer peer;
	int fd;

	if (!peer_of(args[2], args[3], &peer))
		return not_attempted(args[2]);
	fd = socket_of(inet6 ? AF_INET6 : peer.family, args[1]);
	if (fd < 0)
		return not_attempted("socket");
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, way))
			return result(ways[i].go(fd, &peer));
	return not_attempted(way);
}

/* again WAY PROTO ADDRESS PORT PORT2: connected to PORT, disconnected, then WAY to PORT2 */
static int act_again(char **args)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	struct peer first, second;
	int fd;

	if (!peer_of(args[2], args[3], &first) || !peer_of(args[2], args[4], &second))
		return not_attempted(args[2]);
	fd = socket_of(first.family, args[1]);
	if (fd < 0 || connect(fd, &first.address.any, first.size) < 0)
		return not_attempted("the first connection");
	if (!strcmp(args[0], "elsewhere"))
		return result(way_sendto(fd, &second));
	if (connect(fd, &nobody, sizeof(nobody)) < 0)
		return not_attempted("disconnecting");
	return result(way_connect(fd, &second));
}

static int give_interface(int fd, const char *how, const char *name)
{
	uint32_t index = htonl(if_nametoindex(name));

	if (!strcmp(how, "unicast-if"))
		return setsockopt(fd, IPPROTO_IP, IP_UNICAST_IF, &index, sizeof(index));
	return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name));
}

/*
 * bound WAY PROTO OWN ADDRESS PORT: connect, or sendto, from the address OWN; or by the
 * interface host0, with "unicast-if" or "bind-to-device" as OWN
 */
static int act_bound(char **args)
{
	struct peer own, peer;
	int fd;

	if (!peer_of(args[3], args[4], &peer))
		return not_attempted("address");
	fd = socket_of(peer.family, args[1]);
	if (fd < 0)
		return not_attempted("socket");
	if (peer_of(args[2], "0", &own) ? bind(fd, &own.address.any, own.size) < 0
					: give_interface(fd, args[2], "host0") < 0)
		return not_attempted("bind");
	return result(strcmp(args[0], "connect") ? way_sendto(fd, &peer) : way_connect(fd, &peer));
}

/* socket FAMILY TYPE PROTOCOL, as numbers */
static int act_socket(char **args)
{
	return result(socket(atoi(args[0]), atoi(args[1]) | SOCK_CLOEXEC, atoi(args[2])));
}

/*
 * netlink WHAT: "get" asks for loopback's state, "set" brings it up, "both" does it behind
 * a question in one message.
 */
static int act_netlink(char **args)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
	} messages[2] = {
		{{sizeof(messages[0]), RTM_GETLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0}, {0}},
		{{sizeof(messages[0]), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 2, 0}, {0}},
	};
	bool get = !strcmp(args[0], "get"), set = !strcmp(args[0], "set");
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	union {
		struct nlmsghdr head;
		char bytes[65536];
	} reply;
	ssize_t n;

	if (fd < 0)
		return not_attempted("netlink");
	messages[0].info.ifi_index = messages[1].info.ifi_index = (int)if_nametoindex("lo");
	messages[1].info.ifi_flags = messages[1].info.ifi_change = IFF_UP;
	n = send(fd, &messages[set], sizeof(messages[0]) * (get || set ? 1 : 2), 0);
	if (n < 0)
		return result(-1);
	/* The answers end with an acknowledgement, or an error, of the last message. */
	do {
		n = recv(fd, &reply, sizeof(reply), 0);
		if (n < (ssize_t)sizeof(reply.head))
			return not_attempted("no answer");
	} while (reply.head.nlmsg_type != NLMSG_ERROR || reply.head.nlmsg_seq != (get ? 1u : 2u));
	errno = -((const struct nlmsgerr *)NLMSG_DATA(&reply.head))->error;
	return result(errno ? -1 : 0);
}

#endif
