# SPDX-License-Identifier: BSD-2-Clause
#
# The build and the checks, in one file. `make help` lists the targets; all
# output goes below $(O), .output unless a variant says otherwise:
#
#   V=1           show the commands
#   CC=clang      another compiler (gcc is the default)
#   SAN=1         with ASan and UBSan, in .output/san
#   SAN=fuzz      for the fuzzers (clang), in .output/fuzz
#   O=DIR         another folder for the output of the host's compiler
#   prefix=DIR    where `make install` puts things (DESTDIR is honoured)

VERSION = 0.1.0

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.DEFAULT_GOAL := all

# ---- where things go --------------------------------------------------------

prefix ?= /usr/local
bindir ?= $(prefix)/bin
sbindir ?= $(prefix)/sbin
datadir ?= $(prefix)/share
mandir ?= $(datadir)/man
unitdir ?= $(prefix)/lib/systemd/system
profiledir = $(datadir)/ringfence/profiles

# ---- tools and flags --------------------------------------------------------

ifeq ($(origin CC),default)
CC = gcc
endif
ifeq ($(origin AR),default)
AR = ar
endif
CLANG ?= clang
LLVM_STRIP ?= llvm-strip
BPFTOOL ?= $(or $(wildcard /usr/sbin/bpftool),bpftool)
PKG_CONFIG ?= pkg-config
INSTALL ?= install

ifeq ($(SAN),)
O ?= .output
san_flags =
hardening = -fstack-protector-strong -D_FORTIFY_SOURCE=2
else ifeq ($(SAN),fuzz)
O ?= .output/fuzz
san_flags = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else
O ?= .output/san
san_flags = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif

# BPF objects do not depend on the host's compiler: every variant shares them.
B = .output/bpf

warnings = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wundef -Wvla -Wformat=2
packages = libbpf libelf zlib jansson libsystemd libcap yaml-0.1
defines = -D_GNU_SOURCE= -DRF_VERSION='"$(VERSION)"' -DRF_PROFILE_DIR='"$(profiledir)"' \
	-DRF_DAEMON_PATH='"$(sbindir)/ringfenced"'

# Own headers are quoted and found by -iquote alone, so that "bpf/..." is always
# this tree's folder and <bpf/...> always libbpf's.
includes = -iquote . -iquote $(B)
CFLAGS ?= -O2 -g
cflags = -std=gnu11 $(includes) $(defines) $(warnings) $(hardening) $(san_flags) \
	$(shell $(PKG_CONFIG) --cflags $(packages) 2>/dev/null) $(CPPFLAGS) $(CFLAGS)
ldflags = $(san_flags) -Wl,-z,relro,-z,now $(LDFLAGS)
libs = $(shell $(PKG_CONFIG) --libs $(packages) 2>/dev/null)
cmocka = $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null)

# linux/types.h needs asm/, which Debian keeps in a folder of the architecture.
bpf_flags = -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -g -O2 -std=gnu11 -iquote . \
	-I/usr/include/$(shell uname -m)-linux-gnu -Wall -Wextra -Werror

# One evaluation each, not one for every recipe.
cflags := $(cflags)
libs := $(libs)
bpf_flags := $(bpf_flags)

ifeq ($(V),1)
Q =
say = @:
else
Q = @
say = @printf '  %-7s %s\n'
endif

# ---- what there is ----------------------------------------------------------

policy_src = $(wildcard policy/*.c)
user_src = $(filter-out user/ringfenced.c,$(wildcard user/*.c))
tools_src = $(wildcard tools/*.c)
object = $(1:%.c=$(O)/obj/%.o)

programs = $(O)/ringfence $(O)/ringfenced
man = $(patsubst tools/man/%.scd,.output/man/%,$(wildcard tools/man/*.scd))
units = $(patsubst user/systemd/%,.output/systemd/%,\
	$(wildcard user/systemd/*.service user/systemd/*.socket))
profiles = $(wildcard policy/profiles/*.yaml)

# Each .c is one test program; what tests share is in headers.
test_src = $(wildcard selftests/unit/*.c selftests/sim/*.c selftests/cli/*.c) \
	$(filter-out %.bpf.c,$(wildcard selftests/bpf/*.c))
live_src = $(wildcard selftests/live/*.c)
bench_src = $(wildcard selftests/bench/*.c)
fuzz_src = $(wildcard selftests/fuzz/*.c)
test_skel = $(patsubst selftests/bpf/%.bpf.c,$(B)/test/%.skel.h,$(wildcard selftests/bpf/*.bpf.c))
binary = $(1:%.c=$(O)/%)

# ---- all --------------------------------------------------------------------

all: $(programs) $(man) $(units) ## the programs and the man pages (the default)

$(O)/ringfence: $(call object,$(tools_src)) $(O)/libuser.a $(O)/libpolicy.a
$(O)/ringfenced: $(O)/obj/user/ringfenced.o $(O)/libuser.a $(O)/libpolicy.a
$(programs):
	$(say) LD $@
	$(Q)$(CC) $(ldflags) -o $@ $^ $(libs)

$(O)/libpolicy.a: $(call object,$(policy_src))
$(O)/libuser.a: $(call object,$(user_src))
$(O)/libpolicy.a $(O)/libuser.a:
	$(say) AR $@
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(O)/obj/%.o: %.c $(O)/flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(cflags) -MMD -MP -c -o $@ $<

# User code includes the skeleton, which must be there before the first compile;
# later ones know from their dependency files who needs it.
$(call object,$(user_src) user/ringfenced.c): | $(B)/ringfence.skel.h

$(B)/%.bpf.o: bpf/%.bpf.c $(B)/flags
	$(say) BPF $<
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(bpf_flags) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
	$(Q)$(LLVM_STRIP) -g $@

$(B)/ringfence.skel.h: $(B)/ringfence.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton $< name rf_bpf > $@

# A change of flags or of compiler is a change of every object.
define same_or_new
$(shell mkdir -p $(@D))$(file >$@.new,$(1))
@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
endef

$(O)/flags: FORCE
	@$(PKG_CONFIG) --exists --print-errors $(packages) || \
		{ echo "make: libraries are missing; 'make build-deps' installs them" >&2; exit 1; }
	$(call same_or_new,$(cflags) $(ldflags) $(libs) $(shell $(CC) --version | head -n 1))

$(B)/flags: FORCE
	$(call same_or_new,$(bpf_flags) $(shell $(CLANG) --version | head -n 1))

.output/man/%: tools/man/%.scd
	$(say) MAN $@
	@mkdir -p $(@D)
	$(Q)scdoc < $< > $@

.output/systemd/%: user/systemd/% FORCE
	@mkdir -p $(@D)
	@sed -e 's|@sbindir@|$(sbindir)|g' -e 's|@bindir@|$(bindir)|g' $< > $@

# ---- tests ------------------------------------------------------------------

tests: $(call binary,$(test_src) $(live_src) $(bench_src))

# A test links what it includes: libuser only where it names a header of user/.
with_user := $(shell grep -ls '^\#include "user/' selftests/*/*.c)
$(call binary,$(with_user)): $(O)/libuser.a
$(call object,$(with_user)): | $(B)/ringfence.skel.h

$(O)/selftests/%: $(O)/obj/selftests/%.o $(O)/libpolicy.a
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(ldflags) $(fuzzer) -o $@ $< $(filter %/libuser.a,$^) $(filter %/libpolicy.a,$^) \
		$(libs) $(cmocka)

$(O)/selftests/fuzz/%: fuzzer = -fsanitize=fuzzer

# BPF programs of the tests: selftests/bpf/x.bpf.c is included as "test/x.skel.h".
$(B)/test/%.bpf.o: selftests/bpf/%.bpf.c $(B)/flags
	$(say) BPF $<
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(bpf_flags) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
	$(Q)$(LLVM_STRIP) -g $@

$(B)/test/%.skel.h: $(B)/test/%.bpf.o
	$(say) SKEL $@
	$(Q)$(BPFTOOL) gen skeleton $< name $(subst -,_,$*) > $@

$(call object,$(filter selftests/bpf/%,$(test_src))): | $(test_skel)

fuzzers: $(call binary,$(fuzz_src))

# ---- checks -----------------------------------------------------------------

kernels ?= 6.1 6.12 7.2
fast = checks unit unit@san sim $(if $(wildcard selftests/bpf/*.c),bpf) cli cli@san fuzz
long = FUZZ_SECONDS=3600 RF_LONG=1

export RF_KERNELS = $(kernels)

check: deps ## everything: install what is missing, build, test on every kernel
	$(Q)$(MAKE) variants
	$(Q)selftests/run $(fast) live

check-fast: variants ## what needs no VM
	$(Q)selftests/run $(fast)

check-vm: all tests ## the live tests on each kernel (kernels="6.1 6.12 7.2")
	$(Q)selftests/run live

check-long: variants ## everything, with long durations
	$(Q)$(long) selftests/run $(fast) live

# What the checks run. The build with clang is there for its warnings.
variants:
	$(Q)$(MAKE) O=.output SAN= all tests
	$(Q)$(MAKE) O=.output/clang CC=clang SAN= all tests
	$(Q)$(MAKE) O=.output/san SAN=1 all tests
	$(Q)$(MAKE) O=.output/fuzz CC=clang SAN=fuzz fuzzers

fuzz: ## fuzz each target for FUZZ_SECONDS (600)
	$(Q)$(MAKE) O=.output/fuzz CC=clang SAN=fuzz fuzzers
	$(Q)FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) selftests/run fuzz

mutants: ## break the decision code, switch each BPF program off: a test must notice
	$(Q)selftests/mutants
	$(Q)selftests/mutants-live

bench: all tests ## measure; figures in selftests/bench/RESULTS.md
	$(Q)selftests/bench/run

demo: deps ## the story: a confined session, two attacks, the trail
	$(Q)$(MAKE) all
	$(Q)selftests/demo/run

formatted = $(wildcard bpf/*.[ch] policy/*.[ch] user/*.[ch] tools/*.[ch] selftests/*/*.[ch])

format: ## rewrite the C code in the project's style
	$(Q)clang-format-14 -i $(formatted)

show-flags: # for the checkers, which must see the code as the compiler does
	@:$(info $(cflags))

check-format: ## does the C code have the project's style?
	$(Q)selftests/check-format

# ---- deps -------------------------------------------------------------------

build_deps = gcc clang llvm make pkg-config libc6-dev bpftool libbpf-dev libelf-dev zlib1g-dev \
	libyaml-dev libjansson-dev libsystemd-dev libcap-dev scdoc
check_deps = git python3 libcmocka-dev clang-format-14 clang-tidy cppcheck libclang-rt-14-dev
vm_deps = qemu-system-x86 mmdebstrap debian-archive-keyring e2fsprogs cpio kmod lz4 \
	procps xz-utils zstd

build-deps: ## install the Debian packages that building and installing needs
	@selftests/deps $(build_deps)

deps: ## install the Debian packages that are missing, also those of checks and VMs
	@selftests/deps $(build_deps) $(check_deps) $(vm_deps)

# ---- install ----------------------------------------------------------------

# Each file to be installed, as source:target:mode.
section = $(subst .,,$(suffix $(1)))
installed = \
	$(O)/ringfence:$(bindir)/ringfence:755 \
	$(O)/ringfenced:$(sbindir)/ringfenced:755 \
	$(foreach f,$(profiles),$(f):$(profiledir)/$(notdir $(f)):644) \
	$(foreach f,$(man),$(f):$(mandir)/man$(call section,$(f))/$(notdir $(f)):644) \
	$(foreach f,$(units),$(f):$(unitdir)/$(notdir $(f)):644) \
	policy/LANGUAGE.md:$(datadir)/doc/ringfence/LANGUAGE.md:644 \
	$(foreach f,$(wildcard policy/examples/*.yaml),\
		$(f):$(datadir)/doc/ringfence/examples/$(notdir $(f)):644) \
	$(foreach f,$(wildcard tools/completion/*.bash),\
		$(f):$(datadir)/bash-completion/completions/$(basename $(notdir $(f))):644) \
	$(foreach f,$(wildcard tools/completion/_*),\
		$(f):$(datadir)/zsh/site-functions/$(notdir $(f)):644) \
	$(foreach f,$(wildcard tools/completion/*.fish),\
		$(f):$(datadir)/fish/vendor_completions.d/$(notdir $(f)):644)

part = $(word $(2),$(subst :, ,$(1)))

define newline


endef

install: all ## install below $(DESTDIR)$(prefix)
	$(foreach i,$(installed),$(say) INSTALL $(DESTDIR)$(call part,$(i),2)$(newline)\
	$(Q)$(INSTALL) -D -m $(call part,$(i),3) $(call part,$(i),1) $(DESTDIR)$(call part,$(i),2)$(newline))

uninstall: ## remove what install put there
	$(Q)rm -f $(foreach i,$(installed),$(DESTDIR)$(call part,$(i),2))
	$(Q)for d in $(profiledir) $(dir $(profiledir)) $(datadir)/doc/ringfence/examples $(datadir)/doc/ringfence; do \
		[ ! -d $(DESTDIR)$$d ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$$d; done

clean: ## remove all output
	$(Q)rm -rf .output

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' Makefile
	@echo "  V=1 shows commands; SAN=1, CC=clang, O=DIR, prefix=DIR: see the head of Makefile"

.PHONY: all tests fuzzers variants check check-fast check-vm check-long show-flags fuzz mutants bench demo \
	format check-format build-deps deps install uninstall clean help FORCE

-include $(shell find $(O)/obj $(B) -name '*.d' 2>/dev/null)
