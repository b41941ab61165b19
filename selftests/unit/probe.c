/* SPDX-License-Identifier: BSD-2-Clause */
/* Requirements as they are found in files: of a folder here, not of this machine. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/utsname.h>
#include <zlib.h>

#include <cmocka.h>

#include "policy/util.h"
#include "user/cleanup.h"
#include "user/probe.h"

#include "selftests/unit/scratch.h"

/* A file at its place below the folder. */
static void put(const char *path, const char *text)
{
	char full[256];

	snprintf(full, sizeof(full), "%s%s", scratch, path);
	for (char *slash = full + strlen(scratch) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		if (mkdir(full, 0700) && errno != EEXIST)
			abort();
		*slash = '/';
	}
	scratch_write(path + 1, "%s", text);
}

static void fix_is(const char *parameter, const char *expected)
{
	_cleanup_free_ char *fix = rf_probe_boot_fix(scratch, parameter);

	assert_non_null(fix);
	assert_string_equal(fix, expected);
}

static void boot(void **state)
{
	(void)state;
	fix_is("lsm=a,bpf", "add lsm=a,bpf to the kernel's command line in the boot loader's "
			    "settings, and reboot");
	put("/etc/os-release", "NAME=\"Debian GNU/Linux\"\nID=debian\n");
	/* Started by another boot loader, as in the cloud. */
	fix_is("lsm=a,bpf", "add lsm=a,bpf to the kernel's command line in the boot loader's "
			    "settings, and reboot");
	put("/etc/default/grub",
	    "# GRUB_CMDLINE_LINUX=\"no\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n"
	    "GRUB_CMDLINE_LINUX=\"\"\n");
	fix_is("lsm=a,bpf", "set in /etc/default/grub: GRUB_CMDLINE_LINUX=\"lsm=a,bpf\"; then: "
			    "update-grub && reboot");
	put("/etc/default/grub", "GRUB_CMDLINE_LINUX='console=ttyS0  lsm=a lsmx=1'\n");
	fix_is("lsm=a,bpf", "set in /etc/default/grub: GRUB_CMDLINE_LINUX=\"console=ttyS0 lsmx=1 "
			    "lsm=a,bpf\"; then: update-grub && reboot");
	put("/etc/os-release", "ID=mint\nID_LIKE=\"ubuntu debian\"\n");
	put("/etc/default/grub", "GRUB_CMDLINE_LINUX=quiet # a word\n");
	fix_is("preempt=voluntary", "set in /etc/default/grub: GRUB_CMDLINE_LINUX=\"quiet "
				    "preempt=voluntary\"; then: update-grub && reboot");
	put("/etc/os-release", "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n");
	fix_is("lsm=bpf", "set in /etc/default/grub: GRUB_CMDLINE_LINUX=\"quiet lsm=bpf\"; then: "
			  "grub2-mkconfig -o /boot/grub2/grub.cfg && reboot");
	put("/etc/os-release", "ID=rocky\nID_LIKE=\"rhel centos fedora\"\n");
	fix_is("lsm=bpf", "grubby --update-kernel=ALL --args=\"lsm=bpf\" && reboot");
	put("/etc/os-release", "ID=nixos\n");
	fix_is("lsm=bpf", "set in configuration.nix: boot.kernelParams = [ \"lsm=bpf\" ]; then: "
			  "nixos-rebuild boot && reboot");
	put("/etc/os-release", "ID=deb\nID_LIKE=\n");
	fix_is("lsm=bpf", "add lsm=bpf to the kernel's command line in the boot loader's "
			  "settings, and reboot");
}

static struct rf_findings findings;

static const struct rf_finding *look(const char *name)
{
	rf_findings_done(&findings);
	assert_int_equal(rf_probe_look(scratch, &findings), 0);
	for (size_t i = 0; i < findings.n; i++)
		if (!strcmp(findings.items[i].name, name))
			return &findings.items[i];
	fail();
	return NULL;
}

static void status_is(const char *name, enum rf_finding_status status, const char *text,
		      const char *fix)
{
	const struct rf_finding *found = look(name);

	assert_int_equal(found->status, status);
	assert_non_null(strstr(found->text, text));
	if (fix)
		assert_non_null(strstr(found->fix, fix));
	else
		assert_null(found->fix);
	if (status == RF_FINDING_FAILURE)
		assert_true(found->kernel);
}

static void lsm(void **state)
{
	(void)state;
	status_is("lsm", RF_FINDING_WARNING, "cannot be read", "mount -t securityfs");
	put("/sys/kernel/security/lsm", "lockdown,yama,bpf\n");
	status_is("lsm", RF_FINDING_OK, "lockdown,yama,bpf", NULL);
	put("/sys/kernel/security/lsm", "lockdown,bpfx,apparmor");
	status_is("lsm", RF_FINDING_FAILURE, "`bpf` is not among the active LSMs",
		  "lsm=lockdown,bpfx,apparmor,bpf");
	put("/sys/kernel/security/lsm", "");
	status_is("lsm", RF_FINDING_FAILURE, "not among", " lsm=bpf ");
}

static void lockdown(void **state)
{
	(void)state;
	status_is("lockdown", RF_FINDING_OK, "not there", NULL);
	put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	status_is("lockdown", RF_FINDING_OK, "[integrity]", NULL);
	put("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	status_is("lockdown", RF_FINDING_FAILURE, "confidentiality", "lockdown=integrity");
}

static void jit(void **state)
{
	(void)state;
	/* As in another network namespace than the first. */
	status_is("jit", RF_FINDING_WARNING, "cannot be read", "nsenter");
	put("/proc/sys/net/core/bpf_jit_enable", "0\n");
	status_is("jit", RF_FINDING_FAILURE, "is off", "net.core.bpf_jit_enable=1");
	put("/proc/sys/net/core/bpf_jit_enable", "1\n");
	status_is("jit", RF_FINDING_OK, "is on", NULL);
}

static void config(void **state)
{
	static const char all[] =
		"CONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\nCONFIG_BPF_LSM=y\n"
		"CONFIG_SECURITY=y\nCONFIG_SECURITY_NETWORK=y\n"
		"CONFIG_DEBUG_INFO_BTF=y\nCONFIG_CGROUPS=y\nCONFIG_CGROUP_BPF=y\n";
	struct utsname name;
	char path[256];
	gzFile file;

	(void)state;
	assert_int_equal(uname(&name), 0);
	status_is("config", RF_FINDING_WARNING, "neither", "modprobe configs");
	snprintf(path, sizeof(path), "/lib/modules/%s/config", name.release);
	put(path, all);
	status_is("config", RF_FINDING_OK, "all", NULL);
	snprintf(path, sizeof(path), "/boot/config-%s", name.release);
	put(path, "CONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\n# CONFIG_BPF_LSM is not set\n"
		  "CONFIG_SECURITY=y\nCONFIG_SECURITY_NETWORK=y\nCONFIG_DEBUG_INFO_BTF=y\n"
		  "CONFIG_CGROUPS=y\nCONFIG_CGROUP_BPF=y\n");
	status_is("config", RF_FINDING_FAILURE, "without CONFIG_BPF_LSM=y", "use a kernel");
	put("/proc/config.gz", "");
	snprintf(path, sizeof(path), "%s/proc/config.gz", scratch);
	file = gzopen(path, "wbe");
	assert_non_null(file);
	assert_int_equal(gzwrite(file, all, sizeof(all) - 1), sizeof(all) - 1);
	assert_int_equal(gzclose(file), Z_OK);
	status_is("config", RF_FINDING_OK, "all", NULL);
}

static void mounts(void **state)
{
	char mountinfo[256];

	(void)state;
	status_is("bpffs", RF_FINDING_FAILURE, "no bpf file system", "mount -t bpf");
	status_is("cgroup2", RF_FINDING_FAILURE, "no cgroup v2", "mount -t cgroup2");
	status_is("btf", RF_FINDING_FAILURE, "no type information", "CONFIG_DEBUG_INFO_BTF");
	snprintf(mountinfo, sizeof(mountinfo), "3 2 0:6 / %s/cg rw - cgroup2 none rw\n", scratch);
	put("/proc/self/mountinfo", mountinfo);
	put("/cg/cgroup.controllers", "cpu io memory\n");
	status_is("cgroup2", RF_FINDING_OK, "/cg", NULL);
	status_is("controllers", RF_FINDING_WARNING,
		  "hierarchy: pids; a policy with limits of tasks", "unified_cgroup_hierarchy");
	put("/cg/cgroup.controllers", "cpuset cpu io memory pids\n");
	status_is("controllers", RF_FINDING_OK, "memory, pids and cpu", NULL);
}

static int teardown(void **state)
{
	rf_findings_done(&findings);
	return scratch_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(boot, scratch_setup, teardown),
		cmocka_unit_test_setup_teardown(lsm, scratch_setup, teardown),
		cmocka_unit_test_setup_teardown(lockdown, scratch_setup, teardown),
		cmocka_unit_test_setup_teardown(jit, scratch_setup, teardown),
		cmocka_unit_test_setup_teardown(config, scratch_setup, teardown),
		cmocka_unit_test_setup_teardown(mounts, scratch_setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
