/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verdict tables of selftests/sim through the decision code as BPF, run by this
 * machine's kernel (bpf_prog_test_run needs no hook). Each act is judged by the host's
 * code as well: the two must agree in everything.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "policy/rules.h"
#include "selftests/bpf/verdicts.h"
#include "selftests/sim/table.h"
#include "test/verdicts.skel.h"

#define SKIPPED 77

_Static_assert(NAMES == ACT_NAMES, "names of one object");

static struct verdicts *skeleton;
static unsigned int acts;

static int put(const struct bpf_map *map, const void *value)
{
	const __u32 zero = 0;

	return bpf_map_update_elem(bpf_map__fd(map), &zero, value, BPF_ANY);
}

/* The image, in words of a class of the kernel's. */
static int put_image(const struct subject *s)
{
	static __u64 words[RF_CLASS_BYTES(RF_CLASS_1M) / 8];

	if (s->size > sizeof(words))
		return -E2BIG;
	memset(words, 0, sizeof(words));
	memcpy(words, s->image, s->size);
	return put(skeleton->maps.image, words);
}

static int run(struct act *act)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);
	const __u32 zero = 0;
	int r;

	r = put(skeleton->maps.act, act);
	if (!r)
		r = bpf_prog_test_run_opts(bpf_program__fd(skeleton->progs.judge), &options);
	if (!r)
		r = options.retval ? -EIO : 0;
	if (!r)
		r = bpf_map_lookup_elem(bpf_map__fd(skeleton->maps.act), &zero, act);
	return r;
}

static int judge_in_kernel(const struct subject *s, const struct names *names,
			   struct rf_explanation *ret_explanation)
{
	const struct rf_object *object = &names->object;
	struct rf_explanation host;
	struct act act = {
		.is_net = !object->rights,
		.is_udp = object->target.protocols == RF_UDP,
		.port = object->target.first,
		.want = object->rights ? object->rights : RF_NET_CONNECT,
	};
	int r;

	memcpy(act.address, object->target.address, sizeof(act.address));
	for (size_t i = 0; !act.is_net && i < names->n; i++) {
		const char *path = names->paths[i];
		size_t size = strcmp(path, "/") != 0 ? strlen(path) : 0;

		if (size > ACT_PATH)
			return -E2BIG;
		act.size[i] = size;
		memcpy(act.path[i], path, size);
		act.names++;
	}
	r = judge_on_host(s, names, &host);
	if (!r)
		r = put_image(s);
	if (!r)
		r = run(&act);
	if (r)
		return r;
	acts++;
	*ret_explanation = host;
	if (memcmp(&act.verdict, &host.verdict, sizeof(host.verdict)) != 0) {
		printf("# the kernel and the host do not agree\n");
		return -EIO;
	}
	return 0;
}

int main(void)
{
	glob_t found;
	int failed = 0;

	libbpf_set_print(NULL);
	skeleton = verdicts__open_and_load();
	if (!skeleton) {
		if (errno == EPERM) {
			printf("this machine may not load BPF programs\n");
			return SKIPPED;
		}
		printf("Bail out! the program does not load: %s\n", strerror(errno));
		return 1;
	}
	t_judge = judge_in_kernel;
	if (glob("selftests/sim/*.verdicts", 0, NULL, &found)) {
		printf("Bail out! no tables\n");
		return 1;
	}
	printf("1..%zu\n", found.gl_pathc);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		bool good = run_table(found.gl_pathv[i]);

		printf("%s %zu - %s\n", good ? "ok" : "not ok", i + 1, found.gl_pathv[i]);
		failed |= !good;
	}
	globfree(&found);
	printf("# %u acts in the kernel\n", acts);
	verdicts__destroy(skeleton);
	return failed;
}
