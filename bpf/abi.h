/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types and limits shared by the BPF programs and user space: the only place
 * for them. Everything here is fixed-size and has the same layout for both
 * compilers; the asserts at the end hold it so. A change of any layout or
 * meaning raises RF_ABI_VERSION, and a daemon refuses to adopt maps of another.
 */
#ifndef RF_BPF_ABI_H
#define RF_BPF_ABI_H

#include <linux/types.h>

#define RF_ABI_VERSION 7

/* Limits. At each of them a session is denied, never let through. */
#define RF_MAX_SESSIONS 4096 /* session slots */
#define RF_MAX_ANCHORS 262144 /* anchored objects, all policies together */
#define RF_ANCHOR_NAMES 4 /* names of one anchored object */
#define RF_MAX_COMPONENTS 512 /* names between an object and its anchor */
#define RF_NAME_MAX 255 /* bytes of one name (Linux NAME_MAX) */
#define RF_MAX_SUPERS 65536 /* file systems that anchored objects are on */
#define RF_MAX_MADE 65536 /* file systems made by sessions */
#define RF_MAX_MADE_EACH 1024 /* of one session */
#define RF_WALKS 8 /* tries to walk while directories move */
#define RF_MAX_CGROUP_DEPTH 128 /* levels at which a session's cgroup may lie */
#define RF_EVENT_PATH 2048 /* bytes of path text in an event */
#define RF_EVENT_EXE 256 /* bytes of the text of the process's program */
#define RF_COMM 16 /* TASK_COMM_LEN */

/* Rights on files: bits of a mask. "write" of the language is four of them. */
enum rf_right {
	RF_READ = 1 << 0,
	RF_MODIFY = 1 << 1,
	RF_CREATE = 1 << 2,
	RF_DELETE = 1 << 3,
	RF_ATTR = 1 << 4,
	RF_EXEC = 1 << 5,
};
#define RF_RIGHTS 6
#define RF_ALL_RIGHTS ((1 << RF_RIGHTS) - 1)
#define RF_WRITE (RF_MODIFY | RF_CREATE | RF_DELETE | RF_ATTR)

/* The right on the network, of the acts RF_OP_CONNECT and RF_OP_SEND. */
#define RF_NET_CONNECT 0x1

/* The act that was judged. */
enum rf_op {
	RF_OP_NONE,
	RF_OP_OPEN,
	RF_OP_EXEC,
	RF_OP_FORK,
	RF_OP_IOCTL,
	RF_OP_SOCKET,
	RF_OP_CONNECT,
	RF_OP_SEND,
	RF_OP_MOUNT,
	RF_OPS, /* count */
};

/* What was decided. */
enum rf_decision {
	RF_ALLOW,
	RF_DENY,
	RF_WOULD_DENY, /* audit: enforce, or the audited rules, would have denied */
	RF_WOULD_ALLOW, /* denied, but the audited rules would have allowed it */
	RF_DECISIONS,
};

/* Why. RULE and DEFAULT come from the policy, the rest fail closed. */
enum rf_reason {
	RF_REASON_RULE, /* a rule matched */
	RF_REASON_DEFAULT, /* no rule matched: the language's default */
	RF_REASON_TOO_DEEP, /* more than RF_MAX_COMPONENTS below an anchor */
	RF_REASON_UNREADABLE, /* a name could not be read */
	RF_REASON_UNREACHABLE, /* no anchor above the object */
	RF_REASON_RACED, /* directories kept moving during the walk */
	RF_REASON_NO_IMAGE, /* the policy's image is not there */
	RF_REASON_NO_STORAGE, /* no memory for the label of a task, or the mark of a pty */
	RF_REASON_ENDED, /* the session has ended, the task has not */
	RF_REASON_TERMINAL, /* input put into a terminal: always denied, in audit mode too */
	RF_REASON_FOLDED, /* names are folded there, and a rule below says something else */
	RF_REASON_DEVICE, /* a device node that is neither named by a rule nor the system's own */
	RF_REASON_MAP_FULL, /* no room to remember what the session made */
	RF_REASON_IDENTITY, /* an ioctl by which rules would not know an object, its copy or its open */
	RF_REASON_BAD_FAMILY, /* a socket or an address of a kind that no rule can name */
	RF_REASONS,
};

/*
 * A session's slot in the array `sessions`, written by the daemon through a
 * mapping, one 8-byte store at a time: at the start cgroup, word, then id; at the
 * end id = 0 first. `id` is never reused, and a check reads word before id: a
 * label whose id is not that of its slot belongs to a session that has ended.
 * `word` is the one thing that a policy swap switches, and a check reads it once:
 *
 *   bits 63..24  policy: serial number of the policy instance, never reused, not 0
 *   bits 23..22  class of the image's size (enum rf_class)
 *   bits 21..8   slot of the image in the map of its class
 *   bits  7..0   flags
 *
 * A word of 0 denies everything.
 */
struct rf_session {
	__u64 id;
	__u64 word;
	__u64 cgroup; /* id of the cgroup at its root */
	/*
	 * Number of the mount namespace that it was started in: mounts there decide by
	 * their place. 0: none is known, so none does.
	 */
	__u32 mnt_ns;
	__u32 pad;
};

#define RF_WORD_AUDIT 0x1 /* report what enforce would deny, allow it */
#define RF_WORD_LOG_ALL 0x2 /* events for allowed acts too */

#define RF_WORD_POLICY(word) ((word) >> 24)
#define RF_WORD_CLASS(word) (((word) >> 22) & 0x3)
#define RF_WORD_SLOT(word) (((word) >> 8) & 0x3fff)
#define RF_WORD(policy, class, slot, flags)                                                        \
	(((__u64)(policy) << 24) | ((__u64)(class) << 22) | ((__u64)(slot) << 8) | (flags))

/*
 * What is known of a cgroup: one word in rf_global.cgroups, at the index that is
 * the low bits of the cgroup's id. A word is read and written whole, so it
 * cannot be torn:
 *
 *   bits 63..35  low bits of the generation in which it was found out
 *   bits 34..22  the session's slot + 1, 0 for no session at or above the cgroup
 *   bits 21..0   the next bits of the id; ids of more than 32 bits are not kept
 */
#define RF_CGROUP_BITS 10
#define RF_CGROUPS (1 << RF_CGROUP_BITS)
#define RF_CGROUP_KEPT(id) (!((id) >> 32))
#define RF_CGROUP_WORD(generation, slot1, id)                                                      \
	((__u64)(generation) << 35 | (__u64)(slot1) << 22 | (id) >> RF_CGROUP_BITS)
#define RF_CGROUP_SLOT1(word) ((__u32)((word) >> 22) & 0x1fff)
#define RF_CGROUP_BUT_SLOT(word) ((word) & ~(0x1fffull << 22))

/*
 * Which inode numbers may be those of anchors: the bit of the number in rf_global.anchored is set
 * before the anchor is there, so most objects on the way up need no look-up. Bits are cleared
 * when no anchor is left.
 */
#define RF_ANCHORED_BITS 17
#define RF_ANCHORED_WORDS (1 << (RF_ANCHORED_BITS - 6))
#define RF_ANCHORED_BIT(ino) ((__u64)(ino)*0x9e3779b97f4a7c15ull >> (64 - RF_ANCHORED_BITS))

/* The programs' global data (map `global`), shared through a mapping. */
struct rf_global {
	__u32 abi; /* RF_ABI_VERSION */
	__u32 generation; /* raised whenever a session starts or ends */
	__u64 next_session;
	__u64 next_policy;
	__u64 key[2]; /* secret: of the tags of events */
	__u64 cgroups[RF_CGROUPS];
	__u32 last_super; /* the last number given to a file system */
	__u32 pad;
	__u64 anchored[RF_ANCHORED_WORDS];
};

/*
 * An anchor: an object whose names are known to one policy instance. The
 * identity is what the kernel itself reads from the inode. `super` is the number
 * that its superblock got when a session first had an anchor there, and lost when it was
 * freed: device numbers, and addresses, are soon another's. `subvol` is for file
 * systems whose inode numbers are unique only within a subvolume, which get no
 * anchors yet: 0.
 */
struct rf_anchor_key {
	__u64 policy;
	__u64 ino;
	__u64 subvol;
	__u32 super; /* 0: none */
	__u32 generation;
};

/*
 * The file systems of the kernel (proc, sysfs, ...) have one name whatever the
 * instance: their key has this subvol, s_magic as ino and 0 for the rest.
 */
#define RF_SUBVOL_TYPE (~0ull)

/*
 * One word for each name of the object: bits 63..24 the policy's serial number
 * again (an element may be reused while it is read, so the reader compares),
 * bit 23 RF_NAME_DENY_ONLY, bits 22..0 the automaton's state after that name.
 * 0 = no more names.
 */
struct rf_anchor {
	__u64 name[RF_ANCHOR_NAMES];
};

/*
 * A name that can take away but not give: one that leads through a symlink
 * which the session itself could plant, or the other side of a bind mount.
 */
#define RF_NAME_DENY_ONLY 0x800000
#define RF_NAME_WORD(policy, state, flags) (((__u64)(policy) << 24) | (flags) | (state))
#define RF_NAME_POLICY(word) ((word) >> 24)
#define RF_NAME_STATE(word) ((__u32)(word)&0x7fffff)

/* What the kernel says of a descriptor of the loader (iterator `identify`). */
struct rf_identity {
	__u32 fd;
	__u32 super; /* number of its file system, 0: there was no room for one */
	__u64 ino;
	__u64 subvol;
	__u32 generation;
	__u32 mode; /* i_mode */
	__u64 magic; /* s_magic of its file system */
	__u64 flags; /* RF_IDENTITY_* */
};
#define RF_IDENTITY_FOLDS 0x1 /* different names may be one there, as "A" and "a" */

/* A file system that a session made: whose it is, and the slot where it is counted. */
struct rf_made {
	__u64 session;
	__u32 slot;
	__u32 pad;
};

/*
 * Image of a compiled policy: position-independent, in units of 8-byte words,
 * so that one masked index reaches any of it. Sections lie behind the header
 * in the order of the offsets, each starting on a word; an offset is a word
 * index from the start of the image. Bytes behind `size` are zero.
 *
 * The automaton runs over the bytes of a path as "/name/name...", the root
 * being the empty string. A rule that matches a directory matches all below,
 * so a state says everything about its object and, where RF_STATE_FLAT is
 * set, about all that lies below it.
 *
 *   cls[byte]          the byte's class
 *   states[s]          one word each:
 *                      bits 63..40 base, 39..16 default target, 15 flat, 14..0 accept
 *   cells[base + cls]  32 bits each, two in a word, the first in the low half: bits
 *                      31..8 target, 7..0 check; if that is not cls + 1 the step
 *                      goes to s's default target. States share a base only if
 *                      they share all their cells, so the check tells whose it is;
 *                      0 is an empty cell, and there are at most 255 classes
 *   accepts[a]         struct rf_accept (RF_ACCEPT_WORDS words each)
 *   rules[n - 1]       struct rf_rule (one word pair each)
 *   nodes[n]           of the network's tree, RF_NODE_WORDS words each, see below
 *   leaves[l]          struct rf_leaf (one word each)
 *   ports[p]           struct rf_port (one word each)
 *   strings            bytes, NUL-terminated, offsets in bytes from the section's start
 *
 * An address is 16 bytes, IPv4 as ::ffff:a.b.c.d. From `root` each half byte, the high one
 * first, leads to a child: 32 bits each, two in a word, the first in the low half; with
 * RF_NODE_LEAF it is a leaf, else a node. A leaf has the ports of TCP and then those of
 * UDP, each a list of ranges that ends at 65535. The leaf of 0.0.0.0 allows only what every
 * IPv4 address allows, that of :: what every address does. The seven fields are 0 if there are no
 * rules for the network: all of it falls to the default.
 *
 * State 0 is never a target: a step that yields 0 is an error, hence a deny.
 */
#define RF_IMAGE_MAGIC 0x31464752 /* "RGF1" */
#define RF_IMAGE_VERSION 3

enum rf_class { RF_CLASS_16K, RF_CLASS_128K, RF_CLASS_1M, RF_CLASS_4M, RF_CLASSES };
#define RF_CLASS_BYTES(class)                                                                      \
	((class) == RF_CLASS_16K    ? 16u << 10                                                    \
	 : (class) == RF_CLASS_128K ? 128u << 10                                                   \
	 : (class) == RF_CLASS_1M   ? 1u << 20                                                     \
				    : 4u << 20)
#define RF_IMAGE_MAX (4u << 20)
#define RF_IMAGES_PER_CLASS 4096

#define RF_MAX_STATES 0x80000 /* one word each: all that a 4 MiB image can hold */
#define RF_MAX_ACCEPTS 0x7fff
#define RF_MAX_RULES 16384

struct rf_image {
	__u32 magic;
	__u32 version;
	__u32 size; /* bytes in use, header included; a multiple of 8 */
	__u32 checksum; /* zlib crc32 of bytes [0, size) with this field as 0 */
	__u32 start; /* state of the root directory's name (the empty string) */
	__u32 detached; /* rights on objects that have no name */
	__u32 nstates, ncells, naccepts, nrules, nstrings; /* nstrings in bytes */
	__u32 states, cells, accepts, rules, strings; /* word offsets */
	__u8 cls[256];
	__u32 root; /* of the network's tree */
	__u32 nnodes, nleaves, nports;
	__u32 nodes, leaves, ports; /* word offsets, between rules and strings */
	__u32 pad;
};
#define RF_IMAGE_CLS_BYTE 64 /* offset of cls in bytes */

#define RF_STATE(base, dflt, flat, accept)                                                         \
	(((__u64)(base) << 40) | ((__u64)(dflt) << 16) | ((flat) ? 0x8000u : 0u) | (accept))
#define RF_STATE_BASE(s) ((__u32)((s) >> 40))
#define RF_STATE_DEFAULT(s) ((__u32)((s) >> 16) & 0xffffff)
#define RF_STATE_FLAT(s) ((__u32)(s)&0x8000)
#define RF_STATE_ACCEPT(s) ((__u32)(s)&0x7fff)
#define RF_CELL(cls, target) (((__u32)(target) << 8) | ((cls) + 1))
#define RF_CELL_CHECK(c) ((__u32)(c)&0xff)
#define RF_CELL_TARGET(c) ((__u32)(c) >> 8)
#define RF_CELL_WORDS(n) (((__u64)(n) + 1) / 2)

/*
 * What a state grants. allow, deny and forbid are masks of rights, disjoint;
 * what is in none of them falls to the default, deny. rule[i] is the number
 * (from 1) of the rule that decided right 1 << i, 0 for the default. `audited`
 * is the accept of the policy with its audited rules in force, 0 if the same.
 */
struct rf_accept {
	__u8 allow;
	__u8 deny;
	__u8 forbid;
	__u8 pad;
	__u16 audited;
	__u16 rule[RF_RIGHTS];
	__u16 pad2[3];
};
#define RF_ACCEPT_WORDS 3

#define RF_NODE_LEAF 0x80000000u
#define RF_NODE_WORDS 8
#define RF_NODE_STEPS 32 /* half bytes of an address */

struct rf_leaf {
	__u32 first; /* of its ports */
	__u16 ntcp;
	__u16 nudp;
};

/* What holds for the ports up to `last`. The rule is 0 for the default, deny. */
struct rf_port {
	__u16 last;
	__u8 verdict; /* enum rf_net_verdict */
	__u8 audited; /* the same, with the audited rules in force */
	__u16 rule;
	__u16 audited_rule;
};

enum rf_net_verdict {
	RF_NET_DEFAULT,
	RF_NET_ALLOW,
	RF_NET_DENY,
	RF_NET_FORBID,
	RF_NET_VERDICTS,
};
#define RF_PORT_STEPS 17 /* halvings that find one of 65536 */

/* Where a rule stands, for events and `why`. file and text are string offsets. */
struct rf_rule {
	__u32 file;
	__u32 line;
	__u32 text;
	__u16 column;
	__u16 flags;
};
#define RF_RULE_WORDS 2
#define RF_RULE_GROUP 0x1 /* it stands for the paths that follow it, too */

/* Two rings, because a ring has no reservation: allowed acts cannot push out denials. */
enum rf_stream {
	RF_STREAM_DENIALS, /* would-deny and would-allow, too */
	RF_STREAM_OTHERS,
	RF_STREAMS,
};
#define RF_RING_BYTES (1u << 20) /* of each */

/*
 * What a session may put into each ring: a quarter of it at once (574 usual denials of
 * 456 bytes, or 106 of the longest), then 122,070 bytes (267 usual denials) a second. So
 * no session fills a ring before the daemon, which is woken by the first event, has not
 * read it for 6 seconds; other sessions are told meanwhile.
 */
#define RF_BUDGET_BYTES (RF_RING_BYTES / 4)
#define RF_BUDGET_NS 8192 /* each byte's share of time */
#define RF_BUDGET_SPAN ((__u64)RF_BUDGET_BYTES * RF_BUDGET_NS)
#define RF_RECORD_HEAD 8 /* bytes that a ring adds to a record */

/*
 * Equal acts are told once and then counted: a cell of `repeats` holds the tag of an
 * event that has been written and, in its low bits, how many equal ones followed. The
 * daemon takes these numbers about each second, and empties the cells that stay at 0. A
 * cell with a number is nobody else's, so none is ever dropped.
 *
 * The tag is a hash, under a key that no session knows, of all that makes two acts
 * equal. Its low bits say in which set of cells it may be, the others are in the cell.
 */
#define RF_REPEAT_SETS 16
#define RF_REPEAT_WAYS 4
#define RF_REPEATS (RF_REPEAT_SETS * RF_REPEAT_WAYS)
#define RF_REPEAT_COUNT 0xffffffull
#define RF_REPEAT_TAG(word) ((word) & ~RF_REPEAT_COUNT)

/*
 * Of each session (array `meters`, index = slot, mapped by the daemon). The last one is
 * for tasks whose session has ended: they cannot use up what a later one in the slot has.
 */
struct rf_meter {
	__u64 session; /* whose it is */
	__u64 made; /* RF_MADE_WORD(): how many file systems of it are there */
	struct rf_meter_stream {
		__u64 due; /* when all that was written has had its share of time; boottime */
		__u64 repeats[RF_REPEATS];
	} stream[RF_STREAMS];
};
#define RF_METER_ENDED RF_MAX_SESSIONS
/* Whose they are stands in the same word: what one session made may outlive it. */
#define RF_MADE_WORD(session, n) ((__u64)(session) << 24 | (n))
#define RF_MADE_COUNT(word) ((word)&0xffffff)
#define RF_METERS (RF_MAX_SESSIONS + 1)

/* Why an event is not told. */
enum rf_loss {
	RF_LOSS_RATE, /* the session's budget was used up */
	RF_LOSS_RING, /* no room in the ring */
	RF_LOSSES,
};

/*
 * Counters of a session (per-CPU array `counters`, index = slot). Once no task of it is
 * left, seen = written + coalesced + the sum of lost.
 */
struct rf_counters {
	__u64 session; /* whose they are */
	__u64 seen; /* events that were due */
	__u64 written;
	__u64 coalesced; /* added to an equal one */
	__u64 lost[RF_LOSSES];
	__u64 denied[RF_REASONS];
	__u64 would_deny[RF_REASONS];
};

/* One event in a ring buffer; `path` holds path_len bytes, not terminated. */
struct rf_event {
	__u64 time; /* CLOCK_BOOTTIME, ns */
	__u64 session;
	__u64 policy;
	__u64 cgroup;
	__u32 pid, tgid; /* thread and process, initial pid namespace */
	__u32 ns_pid; /* process, its own pid namespace */
	__u32 uid;
	__u64 tag; /* the same for equal acts, see struct rf_meter; 0: equal to none */
	__u8 decision; /* enum rf_decision */
	__u8 op; /* enum rf_op */
	__u8 reason; /* enum rf_reason */
	__u8 flags; /* RF_EVENT_* */
	__u8 want; /* rights that the act needs */
	__u8 missing; /* those that the policy does not give */
	__u16 rule; /* deciding rule, 0 = default */
	char comm[RF_COMM];
	/*
	 * The path is the anchor's name followed by `path`. Which of the
	 * anchor's names decided is anchor_name; the reader knows their text.
	 */
	struct rf_anchor_key anchor;
	__u64 magic; /* s_magic of the object's file system */
	__u32 anchor_name;
	__u32 path_len;
	__u32 exe_len; /* 0: no program, a kernel thread */
	/* Of acts on sockets, which have no path. IPv4 as ::ffff:a.b.c.d. */
	__u16 port;
	__u8 proto; /* IPPROTO_TCP, ... */
	__u8 family; /* AF_INET, ... */
	__u8 address[16];
	char exe[RF_EVENT_EXE]; /* the path of the program, in the last exe_len bytes */
	char path[RF_EVENT_PATH];
};
#define RF_EVENT_TRUNCATED 0x1 /* the path's text was cut */
#define RF_EVENT_NO_ANCHOR 0x2 /* no anchor: path is what lies below the last parent seen */
#define RF_EVENT_DETACHED 0x4 /* an object without a name (memory, pipe) */
#define RF_EVENT_EXE_CUT 0x8 /* the beginning of exe is missing */

#define RF_ASSERT(name, cond) _Static_assert(cond, name)
RF_ASSERT("slots fit a cgroup's word", RF_MAX_SESSIONS < 0x1fff);
RF_ASSERT("ids fit a cgroup's word", RF_CGROUP_BITS + 22 == 32);
RF_ASSERT("session", sizeof(struct rf_session) == 32);
RF_ASSERT("global", sizeof(struct rf_global) == 48 + 8 * (RF_CGROUPS + RF_ANCHORED_WORDS));
RF_ASSERT("meter", sizeof(struct rf_meter) == 16 + RF_STREAMS * 8 * (1 + RF_REPEATS));
RF_ASSERT("anchor key", sizeof(struct rf_anchor_key) == 32);
RF_ASSERT("anchor", sizeof(struct rf_anchor) == 32);
RF_ASSERT("identity", sizeof(struct rf_identity) == 48);
RF_ASSERT("made", sizeof(struct rf_made) == 16);
RF_ASSERT("image", sizeof(struct rf_image) == 352);
RF_ASSERT("image cls", __builtin_offsetof(struct rf_image, cls) == RF_IMAGE_CLS_BYTE);
RF_ASSERT("leaf", sizeof(struct rf_leaf) == 8);
RF_ASSERT("port", sizeof(struct rf_port) == 8);
RF_ASSERT("accept", sizeof(struct rf_accept) == 8 * RF_ACCEPT_WORDS);
RF_ASSERT("rule", sizeof(struct rf_rule) == 8 * RF_RULE_WORDS);
RF_ASSERT("event head", __builtin_offsetof(struct rf_event, path) == 408);
RF_ASSERT("event", sizeof(struct rf_event) == 408 + RF_EVENT_PATH);

#endif
