#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Tests of the rig itself: test.sh [NAME...]; prints a line ok or not ok for each.
# shellcheck disable=SC2016	# much here is for a shell in the machine to expand
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
run=$here/run
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

# check NAME COMMAND...: passes if COMMAND succeeds
check()
{
	local name=$1
	shift

	if "$@"; then
		printf 'ok %s\n' "$name"
		passed=$((passed + 1))
	else
		printf 'not ok %s\n' "$name"
		failed=$((failed + 1))
	fi
}

# status_is N COMMAND...: COMMAND ends with status N; its output is in $tmp
status_is()
{
	local want=$1 got=0
	shift

	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null || got=$?
	[[ $got -eq $want ]] && return
	printf '# status %s, not %s\n' "$got" "$want"
	sed 's/^/# /' "$tmp/err"
	return 1
}

# one line of the file is exactly this
has_line()
{
	grep -qxF -- "$1" "$2"
}

test_usage()
{
	check 'help' status_is 0 "$run" --help
	check 'help tells the options' grep -q -- '-k KERNEL' "$tmp/out"
	check 'unknown option' status_is 2 "$run" --frobnicate
	check 'unknown kernel' status_is 2 "$run" -k 5.10 -- true
	check 'bad time' status_is 2 "$run" -t soon -- true
	check 'missing argument' status_is 2 "$run" -k
	check 'missing file' status_is 2 "$run" -f "$tmp/none" -- true
	check 'two files of a name' status_is 2 "$run" -f /etc/hosts -f /etc/./hosts -- true
	mkdir "$tmp/repo" "$tmp/repo/.git"
	check 'a repository is not emptied' status_is 2 "$run" -o "$tmp/repo" -- true
	check 'the working directory is not emptied' status_is 2 "$run" -o . -- true
}

test_kernels()
{
	local kernel log=$here/../../.output/vm

	for kernel in 6.1 6.12 7.2; do
		check "$kernel boots" status_is 0 "$run" -k "$kernel" -- sh -c \
			'uname -r; cat /sys/kernel/security/lsm; modprobe overlay && modprobe veth
			echo ok >&2'
		check "$kernel is itself" grep -q "^${kernel//./\\.}\\." "$tmp/out"
		check "$kernel has bpf among its LSMs" grep -qE '(^|,)bpf(,|$)' "$tmp/out"
		check "$kernel has its modules" has_line ok "$tmp/err"
		check "$kernel leaves its log" grep -q 'Linux version' "$log/$kernel.log"
	done
}

test_status()
{
	check 'status 7' status_is 7 "$run" -- sh -c 'exit 7'
	check 'status of a signal' status_is 137 "$run" -- sh -c 'kill -KILL $$'
	check 'SIGINT is not ignored' status_is 130 "$run" -- sh -c 'kill -INT $$; sleep 5'
	check 'no such command' status_is 127 "$run" -- /no/such
	check 'arguments arrive whole' status_is 0 "$run" -- sh -c \
		'[ "$#" = 3 ] && [ "$1" = "a  b" ] && [ "$2" = "" ] && [ "$3" = "\$x
y" ]' sh 'a  b' '' $'$x\ny'
}

test_output()
{
	check 'streams' status_is 3 "$run" -- sh -c 'echo out; echo err >&2; exit 3'
	check 'stdout alone' [ "$(<"$tmp/out")" = out ]
	check 'stderr alone' [ "$(<"$tmp/err")" = err ]

	check 'a large binary output' status_is 0 "$run" -- /usr/bin/python3 -c '
import hashlib, sys
data = bytes(range(256)) * 4096 * 5
sys.stdout.buffer.write(data)
sys.stderr.write(hashlib.sha256(data).hexdigest())'
	check 'it has its size' [ "$(stat -c %s "$tmp/out")" -eq $((5 * 1024 * 1024)) ]
	check 'it has its content' [ "$(sha256sum <"$tmp/out")" = "$(<"$tmp/err")  -" ]

	check 'streams can be opened again' status_is 0 "$run" -- sudo -u agent \
		sh -c 'echo 1 >/dev/stdout; echo 2 >/dev/stderr'
	check 'opened stdout' has_line 1 "$tmp/out"
	check 'opened stderr' has_line 2 "$tmp/err"
	check 'a process left behind does not hold it' status_is 0 "$run" -t 60 -- \
		sh -c 'sleep 1000 & echo done'
	check 'stdin is empty' status_is 0 "$run" -- sh -c '[ "$(wc -c)" -eq 0 ]'
}

test_files()
{
	mkdir -p "$tmp/tree/sub" "$tmp/back"
	echo in >"$tmp/tree/sub/file"
	ln -s sub/file "$tmp/tree/link"
	echo stale >"$tmp/back/stale"
	check 'files go in and come back' status_is 0 "$run" -f "$tmp/tree" -f "$here/test.sh" \
		-o "$tmp/back" -- sh -ec '
		[ "$(cat /in/tree/link)" = in ]; [ -L /in/tree/link ]; [ -x /in/test.sh ]
		mkdir "/out/a b"; echo back >"/out/a b/c"; dd if=/dev/urandom of=/out/big bs=1M count=8
		sha256sum </out/big'
	check 'content of /out' [ "$(cat "$tmp/back/a b/c")" = back ]
	check 'large file of /out' [ "$(sha256sum <"$tmp/back/big")" = "$(<"$tmp/out")" ]
	check 'the directory was emptied' [ ! -e "$tmp/back/stale" ]
}

test_machine()
{
	check 'the user agent' status_is 0 "$run" -- sudo -iu agent sh -ec \
		'[ "$(id -u)" = 1000 ]; [ "$PWD" = /home/agent ]; touch ~/x'
	check 'what runs there' status_is 0 "$run" -- sh -ec '
		[ "$(id -u)" = 0 ]; [ "$(hostname)" = ringfence ]
		/usr/bin/python3 -c "import socket; socket.create_server((\"127.0.0.1\", 0))"
		gcc --version; git --version; strace -V; bwrap --version; bpftool version
		for d in /sys/fs/bpf /sys/fs/cgroup /sys/kernel/security /sys/kernel/tracing \
			/dev/pts /dev/shm /run /tmp; do mountpoint $d; done
		printf "int main(void) { return 0; }" >/tmp/a.c; gcc -o /tmp/a /tmp/a.c; /tmp/a'
	check 'kernel command line' status_is 0 "$run" -a one=1 -a 'two=2 three' -- \
		grep -q 'one=1 two=2 three' /proc/cmdline
	check 'a root of its own' status_is 0 "$run" -- sh -ec '[ ! -e /etc/mark ]; echo >/etc/mark'
	check 'changes do not last' status_is 0 "$run" -- sh -ec '[ ! -e /etc/mark ]'
	check 'instruction counting' status_is 0 "$run" -i -- sh -ec '[ "$(nproc)" = 1 ]'
	check 'a shell that reads a pipe' [ "$(echo 'echo $((6 * 7)); exit 4' | "$run")" = 42 ]
	check 'a shell on a terminal' shell_on_terminal
}

shell_on_terminal()
{
	printf 'tty; stty size; exit 9\n' |
		script -qec "stty rows 33 cols 99; '$run'" /dev/null >"$tmp/out"
	[[ $? -eq 9 ]] && grep -q /dev/hvc0 "$tmp/out" && grep -q '33 99' "$tmp/out"
}

test_failure()
{
	check 'time-out' status_is 124 "$run" -t 2 -- sh -c 'echo before; sleep 100'
	check 'output before the time-out' has_line before "$tmp/out"
	check 'panic' status_is 125 "$run" -- sh -c 'echo c >/proc/sysrq-trigger; sleep 100'
	check 'panic is shown' grep -q 'Kernel panic' "$tmp/err"
	check 'boot failure' status_is 125 "$run" -a 'rdinit=/none init=/none' -- true

	"$run" -- sleep 100 >/dev/null 2>&1 &
	sleep 3
	local runner=$! qemu
	qemu=$(pgrep -P "$runner" qemu)
	kill -KILL "$runner"
	wait "$runner" 2>/dev/null
	sleep 1
	check 'QEMU was there' [ -n "$qemu" ]
	# a zombie, where nothing reaps orphans, is dead enough
	check 'it dies with its runner' [ "$(ps -o stat= -p "$qemu" | tr -d 'Z[:lower:] ')" = '' ]
}

test_several()
{
	local one two a=0 b=0

	"$run" -o "$tmp/o1" -- sh -c 'echo 1 | tee /out/n' >"$tmp/1" & one=$!
	"$run" -o "$tmp/o2" -- sh -c 'echo 2 | tee /out/n; exit 5' >"$tmp/2" & two=$!
	wait "$one" || a=$?
	wait "$two" || b=$?
	check 'two at once' [ "$a $b $(<"$tmp/1") $(<"$tmp/2") $(cat "$tmp"/o[12]/n)" = $'0 5 1 2 1\n2' ]
	check 'all kernels, first failure' status_is 4 "$run" -k all -o "$tmp/all" -- \
		sh -c 'uname -r | tee /out/r; case $(uname -r) in 6.1.*) ;; 6.12*) exit 4 ;; *) exit 5; esac'
	check 'all kernels ran' [ "$(wc -l <"$tmp/out")" = 3 ]
	check 'their files' [ "$(cat "$tmp"/all/{6.1,6.12,7.2}/r)" = "$(<"$tmp/out")" ]
}

test_fresh()
{
	if [[ $(id -u) -ne 0 ]]; then
		echo '# fresh needs root: skipped'
		skipped=$((skipped + 1))
		return
	fi
	check 'fresh: status' status_is 3 env TMPDIR="$tmp" "$here/fresh" -- \
		sh -c 'git log -1 --format=%H; [ -e Makefile ] && exit 3'
	check 'fresh: a clone of HEAD' [ "$(<"$tmp/out")" = "$(git -C "$here" rev-parse HEAD)" ]
	check 'fresh: nothing is left' [ -z "$(ls -d "$tmp"/ringfence-fresh.* 2>/dev/null)" ]
	check 'fresh: a bare system' status_is 1 "$here/fresh" -- sh -c 'command -v gcc || exit 1'
	check 'fresh: usage' status_is 2 "$here/fresh" --frobnicate
}

if [[ $# -eq 0 ]]; then
	set -- usage kernels status output files machine failure several fresh
fi
for name; do
	"test_$name"
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[[ $failed -eq 0 ]]
