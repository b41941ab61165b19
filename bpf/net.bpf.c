/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The network.
 *
 *   socket_create  -> sockets that no rule can name: other families than inet, inet6,
 *                     unix and netlink's route, and of inet all but TCP and UDP
 *   socket_connect -> TCP and UDP connections to an address
 *   socket_sendmsg -> what is sent to an address without a connection: UDP, and TCP
 *                     fast open, which connects
 *   netlink_send   -> changes of addresses, routes and interfaces
 *
 * An address is judged by its own family, as the kernel reads it, not by the
 * socket's: an inet6 socket takes IPv4 addresses too, and can become an inet socket
 * between this check and the act. 0.0.0.0 and :: lead to what address of this host the
 * kernel takes, which others can still change: the tables say what all addresses allow.
 */
#include "bpf/event.bpf.h"
#include "bpf/image.bpf.h"
#include "bpf/label.bpf.h"

/* sockaddr_in and sockaddr_in6, as far as they are judged. */
struct rf_sockaddr {
	__u16 family;
	__be16 port;
	__be32 v4; /* of inet6 the flow */
	__u64 v6[2];
};
#define RF_SOCKADDR_IN 16 /* bytes that the kernel asks for: sizeof(struct sockaddr_in) */
#define RF_SOCKADDR_IN6 24 /* SIN6_LEN_RFC2133 */

#define RF_MESSAGES 64 /* of netlink, in one send */

/* ---- the verdict ------------------------------------------------------------ */

/* The verdict on the address, port and protocol in the label's event. */
#define RF_JUDGE_ADDRESS(suffix)                                                                   \
	__noinline int judge_address_##suffix(struct rf_image_##suffix *image,                     \
					      struct rf_label *label)                              \
	{                                                                                          \
		const __u32 mask = sizeof(*image) / 8 - 1;                                         \
		__u64 entry;                                                                       \
                                                                                                   \
		if (!image || !label)                                                              \
			return 0;                                                                  \
		entry = rf_net_find(image->word, mask, label->event.address,                       \
				    label->event.proto == IPPROTO_UDP, label->event.port);         \
		rf_verdict_net(&label->walk.verdict, entry);                                       \
		return 0;                                                                          \
	}

RF_JUDGE_ADDRESS(16k)
RF_JUDGE_ADDRESS(128k)
RF_JUDGE_ADDRESS(1m)
RF_JUDGE_ADDRESS(4m)

static __always_inline void judge_address(struct rf_label *label, __u64 word)
{
	rf_verdict_fail(&label->walk.verdict, RF_REASON_NO_IMAGE);
	with_image(word, judge_address, label);
}

static __always_inline void set_address(struct rf_event *event, __u64 high, __u64 low)
{
	__u64 *words = (__u64 *)event->address;

	words[0] = high;
	words[1] = low;
}

/* The low half of ::ffff:a.b.c.d. */
static __always_inline __u64 mapped(__be32 v4)
{
	return (__u64)v4 << 32 | bpf_htonl(0xffff);
}

/* ---- the answer ------------------------------------------------------------- */

/* An event of the label's verdict on the address in its event. */
__noinline int tell_address(struct rf_label *label, __u64 word, __u8 op, __u8 decision)
{
	if (!label)
		return 0;
	event_head(&label->event, label->session, op, &label->walk.verdict, decision);
	label->event.policy = RF_WORD_POLICY(word);
	emit(label);
	return 0;
}

static __always_inline int answer_net(struct rf_label *label, __u64 word, __u8 op)
{
	return answer_with(tell_address, label, word, op);
}

/* Deny an act that no rule can allow. */
static __always_inline int refuse(struct rf_label *label, __u64 word, __u8 op, __u8 reason)
{
	rf_verdict_fail(&label->walk.verdict, word ? reason : RF_REASON_ENDED);
	return answer_net(label, word, op);
}

/* Begin to judge: nothing is known yet of what the event tells. */
static __always_inline void begin(struct rf_label *label, __u16 family)
{
	rf_verdict_begin(&label->walk.verdict, RF_NET_CONNECT);
	label->event.family = family;
	label->event.proto = 0;
	label->event.port = 0;
	set_address(&label->event, 0, 0);
}

/* ---- sockets ---------------------------------------------------------------- */

/* What a rule can name, and what this version does not judge. */
static __always_inline bool may_be_made(int family, int type, int protocol)
{
	switch (family) {
	case AF_UNIX:
		return true;
	case AF_NETLINK:
		return protocol == NETLINK_ROUTE;
	case AF_INET:
	case AF_INET6:
		if (type == SOCK_STREAM)
			return !protocol || protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP;
		return type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
	}
	return false;
}

SEC("lsm/socket_create")
int BPF_PROG(rf_socket_create, int family, int type, int protocol, int kern, int ret)
{
	struct rf_label *label;

	if (ret || kern)
		return ret;
	if (RF_GUARD(may_be_made(family, type, protocol)))
		return 0;
	label = hook_label(RF_OP_SOCKET, RF_NET_CONNECT, -EACCES, &ret);
	if (!label)
		return ret;
	begin(label, family);
	if (family == AF_INET || family == AF_INET6)
		label->event.proto = protocol <= 0xff ? protocol : 0;
	return refuse(label, label_word(label), RF_OP_SOCKET, RF_REASON_BAD_FAMILY);
}

/* ---- addresses -------------------------------------------------------------- */

/* The kernel's own, as a network file system's. A session cannot get hold of one. */
static __always_inline bool is_kernels(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(sk, sk_kern_sock);
}

/*
 * Read an address of `size` bytes, in the kernel's memory, into the event. 0, or the reason
 * why it cannot be judged. What the kernel will not read for want of bytes is not read
 * here either.
 */
static __always_inline __u8 read_address(struct rf_event *event, const void *address, int size,
					 __u8 op)
{
	struct rf_sockaddr to = {};
	long err;

	event->family = AF_UNSPEC;
	if (size >= RF_SOCKADDR_IN6)
		err = bpf_probe_read_kernel(&to, RF_SOCKADDR_IN6, address);
	else if (size >= RF_SOCKADDR_IN)
		err = bpf_probe_read_kernel(&to, RF_SOCKADDR_IN, address);
	else if (size >= (int)sizeof(to.family))
		err = bpf_probe_read_kernel(&to.family, sizeof(to.family), address);
	else
		return RF_REASON_UNREADABLE;
	if (err)
		return RF_REASON_UNREADABLE;
	/* To connect to no family is to disconnect; to send to it is to send to inet. */
	if (to.family == AF_UNSPEC && op == RF_OP_CONNECT)
		return 0;
	if (to.family == AF_UNSPEC || to.family == AF_INET) {
		if (RF_GUARD(size < RF_SOCKADDR_IN))
			return RF_REASON_UNREADABLE;
		event->family = AF_INET;
		set_address(event, 0, mapped(to.v4));
	} else if (to.family == AF_INET6) {
		if (RF_GUARD(size < RF_SOCKADDR_IN6))
			return RF_REASON_UNREADABLE;
		event->family = AF_INET6;
		set_address(event, to.v6[0], to.v6[1]);
	} else {
		event->family = to.family;
		return RF_REASON_BAD_FAMILY;
	}
	event->port = bpf_ntohs(to.port);
	return 0;
}

/* As whose a rule takes a socket of inet or inet6, 0 if no rule names its protocol. */
static __always_inline __u8 judged_as(__u16 protocol)
{
	if (protocol == IPPROTO_MPTCP)
		return IPPROTO_TCP;
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ? protocol : 0;
}

/* A connection of `sock`, or a message, to an address. */
static __always_inline int judge_peer(struct socket *sock, const void *address, int size, __u8 op)
{
	struct rf_label *label;
	struct sock *sk = sock->sk;
	__u16 family, protocol;
	int ret = 0;
	__u64 word;
	__u8 reason;

	/* Asked by the verifier; the kernel itself relies on it. */
	if (!sk)
		return 0;
	family = sk->__sk_common.skc_family;
	protocol = sk->sk_protocol;
	/* Not judged here, and no socket of another family can become one of these. */
	if (RF_GUARD(family == AF_UNIX || family == AF_NETLINK) || is_kernels(sk))
		return 0;
	label = hook_label(op, RF_NET_CONNECT, -EACCES, &ret);
	if (!label)
		return ret;
	word = label_word(label);
	begin(label, family);
	if (family != AF_INET && family != AF_INET6)
		return refuse(label, word, op, RF_REASON_BAD_FAMILY);
	reason = read_address(&label->event, address, size, op);
	if (RF_GUARD(word && !reason && label->event.family == AF_UNSPEC))
		return 0;
	label->event.proto = judged_as(protocol);
	if (!reason && !label->event.proto) {
		label->event.proto = protocol <= 0xff ? protocol : 0;
		reason = RF_REASON_BAD_FAMILY;
	}
	if (RF_GUARD(!word || reason))
		return refuse(label, word, op, reason);
	judge_address(label, word);
	return answer_net(label, word, op);
}

SEC("lsm/socket_connect")
int BPF_PROG(rf_socket_connect, struct socket *sock, struct sockaddr *address, int addrlen, int ret)
{
	if (ret)
		return ret;
	return judge_peer(sock, address, addrlen, RF_OP_CONNECT);
}

/*
 * A socket that is connected was judged when it was. TCP mostly ignores an address here;
 * which kernels do when is not followed.
 */
SEC("lsm/socket_sendmsg")
int BPF_PROG(rf_socket_sendmsg, struct socket *sock, struct msghdr *msg, int size, int ret)
{
	const void *address;

	if (ret)
		return ret;
	address = msg->msg_name;
	if (!address || !msg->msg_namelen)
		return 0;
	return judge_peer(sock, address, msg->msg_namelen, RF_OP_SEND);
}

/* ---- netlink ---------------------------------------------------------------- */

/* Do all messages only ask? They are gone through as netlink_rcv_skb() does. */
static __always_inline bool only_asks(const unsigned char *data, __u32 size)
{
	struct {
		__u32 len;
		__u16 type;
		__u16 flags;
	} message;
	__u32 i, at = 0;

	for (i = 0; i < RF_MESSAGES; i++) {
		if (size - at < NLMSG_HDRLEN)
			return true;
		if (bpf_probe_read_kernel(&message, sizeof(message), data + at))
			return false;
		/* The kernel stops here. */
		if (message.len < NLMSG_HDRLEN || message.len > size - at)
			return true;
		if (message.type >= NLMSG_MIN_TYPE && RTNL_KIND(message.type) != RTNL_KIND_GET)
			return false;
		if (NLMSG_ALIGN(message.len) >= size - at)
			return true;
		at += NLMSG_ALIGN(message.len);
	}
	return false;
}

SEC("lsm/netlink_send")
int BPF_PROG(rf_netlink_send, struct sock *sk, struct sk_buff *skb, int ret)
{
	struct rf_label *label;

	if (ret)
		return ret;
	label = hook_label(RF_OP_SEND, RF_NET_CONNECT, -EACCES, &ret);
	if (!label)
		return ret;
	if (RF_GUARD(sk->sk_protocol == NETLINK_ROUTE && only_asks(skb->data, skb->len)))
		return 0;
	begin(label, AF_NETLINK);
	return refuse(label, label_word(label), RF_OP_SEND, RF_REASON_BAD_FAMILY);
}
