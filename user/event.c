/* SPDX-License-Identifier: BSD-2-Clause */
/* Events as JSON and as text, see event.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "policy/image.h"
#include "policy/util.h"
#include "user/event.h"
#include "user/text.h"

static const char *const ops[RF_OPS] = {
	[RF_OP_NONE] = "none",	     [RF_OP_OPEN] = "open", [RF_OP_EXEC] = "exec",
	[RF_OP_IOCTL] = "ioctl",     [RF_OP_FORK] = "fork", [RF_OP_SOCKET] = "socket",
	[RF_OP_CONNECT] = "connect", [RF_OP_SEND] = "send", [RF_OP_MOUNT] = "mount",
};

static const char *const decisions[RF_DECISIONS] = {
	[RF_ALLOW] = "allow",
	[RF_DENY] = "deny",
	[RF_WOULD_DENY] = "would-deny",
	[RF_WOULD_ALLOW] = "would-allow",
};

static const char *const reasons[RF_REASONS] = {
	[RF_REASON_RULE] = "rule",
	[RF_REASON_DEFAULT] = "default",
	[RF_REASON_TOO_DEEP] = "too-deep",
	[RF_REASON_UNREADABLE] = "unreadable",
	[RF_REASON_UNREACHABLE] = "unreachable",
	[RF_REASON_RACED] = "raced",
	[RF_REASON_NO_IMAGE] = "no-image",
	[RF_REASON_NO_STORAGE] = "no-storage",
	[RF_REASON_ENDED] = "ended",
	[RF_REASON_TERMINAL] = "terminal",
	[RF_REASON_IDENTITY] = "identity",
	[RF_REASON_FOLDED] = "folded",
	[RF_REASON_DEVICE] = "device",
	[RF_REASON_MAP_FULL] = "map-full",
	[RF_REASON_BAD_FAMILY] = "bad-family",
};

static const char *const losses[RF_LOSSES] = {
	[RF_LOSS_RATE] = "rate",
	[RF_LOSS_RING] = "ring-full",
};

static const char *const rights_names[RF_RIGHTS] = {"read",   "modify", "create",
						    "delete", "attr",	"exec"};

static const char *const families[] = {
	[AF_UNIX] = "unix",	[AF_INET] = "inet",
	[AF_INET6] = "inet6",	[AF_NETLINK] = "netlink",
	[AF_PACKET] = "packet", [AF_CAN] = "can",
	[AF_TIPC] = "tipc",	[AF_BLUETOOTH] = "bluetooth",
	[AF_ALG] = "alg",	[AF_VSOCK] = "vsock",
	[AF_XDP] = "xdp",
};

static const char *const protocols[] = {
	[IPPROTO_TCP] = "tcp",
	[IPPROTO_UDP] = "udp",
};

static const char *name_of(const char *const *names, size_t n, unsigned int i)
{
	return i < n && names[i] ? names[i] : "unknown";
}

const char *rf_op_name(unsigned int op)
{
	return name_of(ops, RF_OPS, op);
}

const char *rf_decision_name(unsigned int decision)
{
	return name_of(decisions, RF_DECISIONS, decision);
}

const char *rf_reason_name(unsigned int reason)
{
	return name_of(reasons, RF_REASONS, reason);
}

const char *rf_loss_name(unsigned int loss)
{
	return name_of(losses, RF_LOSSES, loss);
}

char *rf_rights_text(unsigned int rights, char *buf, size_t size)
{
	size_t at = 0;

	if (size)
		*buf = 0;
	for (unsigned int i = 0; i < RF_RIGHTS; i++) {
		int n;

		if (!(rights & 1u << i))
			continue;
		n = snprintf(buf + at, size - at, "%s%s", at ? "+" : "", rights_names[i]);
		if (n < 0 || (size_t)n >= size - at)
			break;
		at += (size_t)n;
	}
	if (!at)
		snprintf(buf, size, "none");
	return buf;
}

/* ---- JSON -------------------------------------------------------------- */

/* An object being filled; the first failure sticks. */
struct builder {
	json_t *json;
	bool failed;
};

static void put(struct builder *b, const char *key, json_t *value)
{
	if (json_object_set_new(b->json, key, value))
		b->failed = true;
}

static void put_bytes(struct builder *b, const char *key, const char *bytes, size_t size)
{
	_cleanup_free_ char *text = rf_escape(bytes, size);

	put(b, key, text ? json_string(text) : NULL);
}

static void put_u64(struct builder *b, const char *key, uint64_t value)
{
	put(b, key, json_integer((json_int_t)value));
}

json_t *rf_event_time(uint64_t boottime)
{
	struct timespec real, boot;
	char text[64];
	int64_t ns;
	struct tm tm;
	time_t s;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	ns = (real.tv_sec - boot.tv_sec) * INT64_C(1000000000) + real.tv_nsec - boot.tv_nsec;
	ns += boottime ? (int64_t)boottime : boot.tv_sec * INT64_C(1000000000) + boot.tv_nsec;
	s = (time_t)(ns / 1000000000);
	gmtime_r(&s, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	return json_sprintf("%s.%09dZ", text, (int)(ns % 1000000000));
}

/* Where the rule number n stands; NULL if the image does not have it. */
static json_t *rule_json(const void *image, unsigned int n)
{
	_cleanup_free_ char *file = NULL;
	_cleanup_free_ char *text = NULL;
	struct rf_image_rule rule;

	if (!rf_image_rule(image, n, &rule))
		return NULL;
	file = rf_escape(rule.file, strlen(rule.file));
	text = rf_escape(rule.text, strlen(rule.text));
	if (!file || !text)
		return NULL;
	return json_pack("{s:s, s:i, s:s, s:i}", "file", file, "line", (int)rule.line, "text", text,
			 "n", (int)n);
}

/* What kind of object has no name, by its file system. */
static const char *detached_kind(const struct rf_event *event)
{
	static const char memfd[] = "/memfd:";

	switch (event->magic) {
	case TMPFS_MAGIC:
		/* One that the session mounted, or memory that has but a label. */
		if (event->path_len < sizeof(memfd) - 1 ||
		    memcmp(event->path, memfd, sizeof(memfd) - 1) != 0)
			return "tmpfs";
		return "memfd";
	case HUGETLBFS_MAGIC:
		return "memfd";
	case PIPEFS_MAGIC:
		return "pipe";
	case SOCKFS_MAGIC:
		return "socket";
	case ANON_INODE_FS_MAGIC:
		return "anon_inode";
	default:
		return "detached";
	}
}

static void put_path(struct builder *b, const struct rf_event *event,
		     const struct rf_event_context *context)
{
	size_t n = event->path_len < RF_EVENT_PATH ? event->path_len : RF_EVENT_PATH;
	const char *path = event->path, *prefix = NULL;
	_cleanup_text_ struct rf_text text = {0};

	if (event->flags & RF_EVENT_DETACHED) {
		const char *kind = detached_kind(event);
		size_t length = strlen(kind);

		if (n && *path == '/' && strcmp(kind, "tmpfs") != 0)
			path++, n--;
		/* The kernel calls a memfd "memfd:name" itself. */
		if (n < length || memcmp(path, kind, length)) {
			rf_text_add(&text, kind, length);
			if (n)
				rf_text_byte(&text, ':');
		}
	} else if (!(event->flags & RF_EVENT_NO_ANCHOR)) {
		if (context->anchor)
			prefix = context->anchor(context->userdata, &event->anchor,
						 event->anchor_name);
		if (prefix && strcmp(prefix, "/") != 0)
			rf_text_add(&text, prefix, strlen(prefix));
		if (n && *path != '/')
			rf_text_byte(&text, '/');
		if (prefix && !n && !text.n)
			rf_text_byte(&text, '/');
	}
	/* A terminal is reported without a walk. */
	if (event->reason == RF_REASON_TERMINAL && event->magic == DEVPTS_SUPER_MAGIC)
		rf_text_add(&text, prefix = "/dev/pts", strlen("/dev/pts"));
	rf_text_add(&text, path, n);
	if (text.failed)
		b->failed = true;
	else
		put_bytes(b, "path", text.text, text.n);
	if (!prefix && !(event->flags & RF_EVENT_DETACHED))
		put(b, "partial", json_true());
	if (event->flags & RF_EVENT_TRUNCATED)
		put(b, "truncated", json_true());
}

static void put_exe(struct builder *b, const struct rf_event *event)
{
	uint32_t size = event->exe_len;

	if (!size || size > sizeof(event->exe))
		return;
	put_bytes(b, "exe", event->exe + sizeof(event->exe) - size, size);
	if (event->flags & RF_EVENT_EXE_CUT)
		put(b, "exe_partial", json_true());
}

/* A name where there is one, else the number. */
static void put_name(struct builder *b, const char *key, const char *const *names, size_t n,
		     unsigned int i)
{
	if (i < n && names[i])
		put(b, key, json_string(names[i]));
	else
		put_u64(b, key, i);
}

static bool is_of_network(const struct rf_event *event)
{
	return event->op == RF_OP_SOCKET || event->op == RF_OP_CONNECT || event->op == RF_OP_SEND;
}

/* Was the act one on an address, and could it be read? */
static bool has_address(const struct rf_event *event)
{
	return (event->op == RF_OP_CONNECT || event->op == RF_OP_SEND) &&
	       (event->family == AF_INET || event->family == AF_INET6);
}

static void put_address(struct builder *b, const struct rf_event *event)
{
	const struct in6_addr *address = (const void *)event->address;
	char text[INET6_ADDRSTRLEN];
	bool v4 = IN6_IS_ADDR_V4MAPPED(address);

	if (inet_ntop(v4 ? AF_INET : AF_INET6, event->address + (v4 ? 12 : 0), text, sizeof(text)))
		put(b, "addr", json_string(text));
	put_u64(b, "port", event->port);
}

/* What an act of the network was on: an address, or what is known of the socket. */
static void put_peer(struct builder *b, const struct rf_event *event)
{
	if (has_address(event))
		put_address(b, event);
	else if (event->family)
		put_name(b, "family", families, RF_COUNT(families), event->family);
	if (event->proto)
		put_name(b, "proto", protocols, RF_COUNT(protocols), event->proto);
}

static json_t *rights_json(const struct rf_event *event)
{
	unsigned int rights = event->missing ? event->missing : event->want;
	json_t *array = json_array();

	if (has_address(event))
		json_array_append_new(array, json_string("connect"));
	if (is_of_network(event))
		return array;
	for (unsigned int i = 0; i < RF_RIGHTS; i++)
		if (rights & 1u << i)
			json_array_append_new(array, json_string(rights_names[i]));
	return array;
}

json_t *rf_event_json(const struct rf_event *event, const struct rf_event_context *context)
{
	struct builder b = {.json = json_object()};
	json_t *rule = NULL;

	if (!b.json)
		return NULL;
	put(&b, "time", rf_event_time(event->time));
	put_u64(&b, "seq", context->seq);
	put(&b, "session", json_string(context->session));
	put(&b, "policy", json_string(context->policy));
	put(&b, "mode", json_string(context->mode));
	put(&b, "verdict", json_string(rf_decision_name(event->decision)));
	put(&b, "op", json_string(rf_op_name(event->op)));
	put(&b, "rights", rights_json(event));
	if (is_of_network(event))
		put_peer(&b, event);
	else if (event->op != RF_OP_FORK)
		put_path(&b, event, context);
	if (event->rule && context->image)
		rule = rule_json(context->image, event->rule);
	if (rule)
		put(&b, "rule", rule);
	else if (event->reason == RF_REASON_DEFAULT)
		put(&b, "default", json_true());
	put(&b, "reason", json_string(rf_reason_name(event->reason)));
	put_u64(&b, "pid", event->pid);
	put_u64(&b, "tgid", event->tgid);
	put_u64(&b, "ns_pid", event->ns_pid);
	put_u64(&b, "uid", event->uid);
	put_bytes(&b, "comm", event->comm, strnlen(event->comm, sizeof(event->comm)));
	put_exe(&b, event);
	put_u64(&b, "cgroup", event->cgroup);
	put_u64(&b, "count", 1);
	if (b.failed) {
		json_decref(b.json);
		return NULL;
	}
	return b.json;
}

/* ---- text -------------------------------------------------------------- */

static const char *str(const json_t *json, const char *key)
{
	const char *s = json_string_value(json_object_get(json, key));

	return s ? s : "?";
}

/*
 * The event's time of day here, and the day if it is not today; as it is where it cannot
 * be read.
 */
static void clock_text(const char *text, char *buf, size_t size)
{
	struct tm tm = {0}, here, today;
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	time_t s = timegm(&tm), now = time(NULL);
	size_t n = 0;

	if (!rest || *rest != '.' || strlen(rest) < 4 || !localtime_r(&s, &here) ||
	    !localtime_r(&now, &today)) {
		snprintf(buf, size, "%s", text);
		return;
	}
	if (here.tm_year != today.tm_year || here.tm_yday != today.tm_yday)
		n = strftime(buf, size, "%Y-%m-%d ", &here);
	snprintf(buf + n, size - n, "%02d:%02d:%02d%.4s", here.tm_hour, here.tm_min, here.tm_sec,
		 rest);
}

static const char *colour_of(const char *verdict)
{
	if (!strcmp(verdict, "deny"))
		return "\033[31m";
	if (!strcmp(verdict, "would-deny"))
		return "\033[33m";
	if (!strcmp(verdict, "allow"))
		return "\033[32m";
	return "\033[35m";
}

static void print_rights(FILE *out, const json_t *rights)
{
	const json_t *right;
	size_t i;

	json_array_foreach (rights, i, right)
		if (json_is_string(right))
			fprintf(out, "%s%s", i ? "+" : " ", json_string_value(right));
}

/* One word of the line, whatever is in it. */
static void print_word(FILE *out, const char *text)
{
	_cleanup_free_ char *word = rf_quote(text);

	fputs(word ? word : "?", out);
}

static void print_why(FILE *out, const json_t *event)
{
	const json_t *rule = json_object_get(event, "rule");

	if (rule) {
		fputs("  ", out);
		print_word(out, str(rule, "file"));
		fprintf(out, ":%" JSON_INTEGER_FORMAT ": %s",
			json_integer_value(json_object_get(rule, "line")), str(rule, "text"));
	} else if (json_is_true(json_object_get(event, "default"))) {
		fprintf(out, "  no rule allows it");
	} else {
		fprintf(out, "  (%s)", str(event, "reason"));
	}
}

/* A value that is a name or, where there is none, a number. */
static void print_name(FILE *out, const json_t *name)
{
	if (json_is_string(name))
		fprintf(out, "%s", json_string_value(name));
	else
		fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(name));
}

static void print_object(FILE *out, const json_t *event)
{
	const json_t *path = json_object_get(event, "path"), *addr = json_object_get(event, "addr"),
		     *family = json_object_get(event, "family"),
		     *proto = json_object_get(event, "proto");

	if (json_is_string(path)) {
		/* Dots outside of the quotes stand for what is not known of the path. */
		fputs(json_is_true(json_object_get(event, "partial")) ? "..." : "", out);
		print_word(out, json_string_value(path));
		fputs(json_is_true(json_object_get(event, "truncated")) ? "..." : "", out);
	} else if (json_is_string(addr))
		fprintf(out, strchr(json_string_value(addr), ':') ? "[%s]:%lld" : "%s:%lld",
			json_string_value(addr),
			(long long)json_integer_value(json_object_get(event, "port")));
	else if (family)
		print_name(out, family);
	if (proto) {
		fputc('/', out);
		print_name(out, proto);
	}
}

char *rf_event_object(const json_t *event)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	print_object(out, event);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

/* What the line says behind the verdict. */
static char *rest_of_text(const json_t *event)
{
	json_int_t count = json_integer_value(json_object_get(event, "count"));
	_cleanup_free_ char *object = rf_event_object(event);
	const char *op = str(event, "op");
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	if (!strcmp(op, "lost")) {
		fprintf(out, " %" JSON_INTEGER_FORMAT " events (%s)", count, str(event, "reason"));
	} else {
		fprintf(out, " %s", op);
		if (object && *object)
			fprintf(out, " %s", object);
		print_rights(out, json_object_get(event, "rights"));
		if (count > 1)
			fprintf(out, " %" JSON_INTEGER_FORMAT "x", count);
		print_why(out, event);
		fputs("  ", out);
		print_word(out, str(event, "comm"));
		fprintf(out, "[%" JSON_INTEGER_FORMAT "]",
			json_integer_value(json_object_get(event, "tgid")));
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

char *rf_event_text(const json_t *event, bool colour)
{
	const char *verdict = strcmp(str(event, "op"), "lost") ? str(event, "verdict") : "lost";
	_cleanup_free_ char *rest = rest_of_text(event), *session = rf_clean(str(event, "session")),
			    *word = rf_clean(verdict), *clean = rest ? rf_clean(rest) : NULL;
	_cleanup_free_ char *day = NULL;
	char when[64], *text;

	clock_text(str(event, "time"), when, sizeof(when));
	day = rf_clean(when);
	if (!day || !session || !word || !clean ||
	    asprintf(&text, "%s %s %s%s%s%s", day, session, colour ? colour_of(verdict) : "", word,
		     colour ? "\033[0m" : "", clean) < 0)
		return NULL;
	return text;
}
