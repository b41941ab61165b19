/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All maps. Key and value types and limits are those of abi.h, but for the
 * label of a task, which user space never reads.
 */
#ifndef RF_BPF_MAPS_H
#define RF_BPF_MAPS_H

#include "bpf/abi.h"
#include "bpf/kernel.h"
#include "bpf/verdict.h"

/* Where a walk ended. */
enum rf_place {
	RF_NOWHERE, /* not at an anchor: the verdict says why */
	RF_ANCHORED,
	RF_DETACHED, /* the object has no name */
	RF_TTY, /* at the controlling terminal, which is /dev/tty */
};

/* One name by which a policy allowed an object: see cache.bpf.h. */
struct rf_cached {
	__u64 word; /* of the session; 0: empty */
	__u64 dentry, parent; /* addresses */
	__u64 parent_ino;
	__u32 hash, len; /* of the name */
	__u32 parent_generation;
	__u32 sequence; /* of rename_lock */
	__u32 epoch; /* see RF_CACHE_EPOCH */
	__u32 allowed; /* rights */
};

/*
 * State of one walk. It lives in the label of the task that walks: a program can
 * be preempted by another task on the same CPU, so per-CPU scratch would be
 * shared, and 6.1 deletes code that depends on loop state kept on the stack.
 */
struct rf_walk {
	__u64 name[RF_MAX_COMPONENTS]; /* addresses of names, from the object upwards */
	__u8 len[RF_MAX_COMPONENTS];
	__u32 n; /* names between the object and the anchor */
	__u32 place; /* enum rf_place */
	__u64 anchor[RF_ANCHOR_NAMES];
	struct rf_anchor_key key;
	/*
	 * The object's own names, where it is an anchor itself but not a directory: it
	 * may have been reached by another hard link, so its place is judged as well.
	 */
	__u64 own[RF_ANCHOR_NAMES];
	struct rf_anchor_key own_key;
	struct rf_verdict verdict;
	/* What is walked, for the walks that are not direct: addresses of a dentry and its mount. */
	__u64 object, mnt;
	__u64 at, mount; /* and where such a walk is */
	__u64 word, session; /* for whom */
	__u32 slot;
	__u32 folded; /* the last so many names are looked up without regard to case */
	__u64 sum; /* over all that a slow walk met */
	struct rf_cached cached; /* what may be kept of it; a word of 0: nothing */
	__u32 before; /* sequence of rename_lock */
	bool crossing; /* by mountpoints, not by d_parent alone */
	bool named; /* the object is an anchor itself */
	__u8 reason; /* why there is no place, or no state */
	char text[RF_NAME_MAX + 1];
};

/* Only tasks of sessions have one. */
struct rf_label {
	__u64 session;
	__u64 cgroup; /* where the task was when it got its label */
	__u32 slot;
	__u32 pad;
	struct rf_walk walk;
	struct rf_event event;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rf_label);
} labels SEC(".maps");

/*
 * Written under the lock, since tasks of several sessions use a file at the same time; read
 * without it. Three ways, so that with the kernel's own part it takes 256 bytes.
 */
struct rf_cache {
	struct bpf_spin_lock lock;
	__u32 changes; /* odd while it is written */
	struct rf_cached way[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rf_cache);
} caches SEC(".maps");

/* The only global variable: .bss, which libbpf makes a map, has this layout. */
struct rf_global global;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RF_MAX_SESSIONS);
	__type(key, __u32);
	__type(value, struct rf_session);
} sessions SEC(".maps");

/* The cgroup at the root of each session -> its slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RF_MAX_SESSIONS);
	__type(key, __u64);
	__type(value, __u32);
} roots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RF_MAX_ANCHORS);
	__type(key, struct rf_anchor_key);
	__type(value, struct rf_anchor);
} anchors SEC(".maps");

/* File systems that anchored objects are on: address of the superblock -> its number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RF_MAX_SUPERS);
	__type(key, __u64);
	__type(value, __u32);
} supers SEC(".maps");

/* File systems that a session made: address of the superblock -> whose. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RF_MAX_MADE);
	__type(key, __u64);
	__type(value, struct rf_made);
} made SEC(".maps");

/* Nodes of the ptys that sessions allocated -> the session's id. */
struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} ptys SEC(".maps");

/*
 * Images: one array of maps for each size class, since an inner map must have the
 * template's value size. value_size is given by number because libbpf cannot
 * size a struct that nothing else uses.
 */
#define RF_IMAGES(suffix, bytes)                                                                   \
	struct rf_image_##suffix {                                                                 \
		__u64 word[(bytes) / 8];                                                           \
	};                                                                                         \
	struct rf_inner_##suffix {                                                                 \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, 1);                                                            \
		__uint(key_size, 4);                                                               \
		__uint(value_size, bytes);                                                         \
	};                                                                                         \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                          \
		__uint(max_entries, RF_IMAGES_PER_CLASS);                                          \
		__type(key, __u32);                                                                \
		__array(values, struct rf_inner_##suffix);                                         \
	} images_##suffix SEC(".maps")

RF_IMAGES(16k, 16 << 10);
RF_IMAGES(128k, 128 << 10);
RF_IMAGES(1m, 1 << 20);
RF_IMAGES(4m, 4 << 20);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RF_MAX_SESSIONS);
	__type(key, __u32);
	__type(value, struct rf_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RF_METERS);
	__type(key, __u32);
	__type(value, struct rf_meter);
} meters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RF_RING_BYTES);
} denials SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RF_RING_BYTES);
} others SEC(".maps");

#endif
