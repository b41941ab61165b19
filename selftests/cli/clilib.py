# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the commands share: run ringfence, report in TAP."""
import json
import os
import re
import subprocess
import sys
import traceback

BUILD = os.path.abspath(os.environ.get("RF_BUILD", ".output"))
RINGFENCE = os.path.join(BUILD, "ringfence")
RINGFENCED = os.path.join(BUILD, "ringfenced")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def commands():
    """The commands that commands[] of tools/main.c names: what the tests of all of them go by."""
    with open(os.path.join(ROOT, "tools", "main.c"), encoding="utf-8") as f:
        table = re.search(r"\bcommands\[\] = \{(.*?)\};", f.read(), re.DOTALL)
    names = re.findall(r"&command_([a-z]+)", table.group(1)) if table else []
    if len(names) < 2:
        raise RuntimeError("tools/main.c has no commands[]")
    return names


COMMANDS = commands()

GOOD = """# a policy
ringfence: 1
name: good
files:
  - allow: [read, exec]
    paths: [/usr, /lib]
  - allow: [read, write]
    paths: ["${WORKSPACE}"]
  - deny: all
    paths: [~/.ssh]
"""


def ringfence(*args, **kwargs):
    """Run it; returns the completed process with text output."""
    return subprocess.run([RINGFENCE, *args], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, **kwargs)


# A mount namespace in which this machine's daemon, its pins and its logs are neither seen nor touched.
ENTER = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--mount", "--map-root-user"]
ALONE = """mount -t tmpfs tmpfs /run && { [ ! -d /sys/fs/bpf ] || mount -t tmpfs tmpfs /sys/fs/bpf; } &&
mount -t tmpfs tmpfs /var/log || exit 99
"""


def alone(*argv, setup="", **kwargs):
    """Run a command in such a namespace, `setup` (shell) before it, where no daemon can be started."""
    p = subprocess.run(ENTER + ["sh", "-c", ALONE + setup + '\n"$0" "$@"', *argv], check=False, text=True,
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                       env=dict(os.environ, RINGFENCED="/nonexistent/ringfenced"), **kwargs)
    expect(p.returncode != 99, p)
    return p


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_run(status, *args, out=None, err=None, **kwargs):
    """Run; check the status and that the outputs hold the given texts ("" = are empty)."""
    p = ringfence(*args, **kwargs)
    got = "ringfence %s: status %d, stdout %r, stderr %r" % (
        " ".join(args), p.returncode, p.stdout, p.stderr)
    expect(p.returncode == status, "not status %d: %s" % (status, got))
    for wanted, text in ((out, p.stdout), (err, p.stderr)):
        if wanted == "":
            expect(text == "", "not empty: " + got)
        elif wanted is not None:
            expect(wanted in text, "no %r: %s" % (wanted, got))
    # A failure always says why.
    expect(p.returncode == 0 or p.stderr or p.stdout, "failed in silence: " + got)
    return p


def expect_json(text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise AssertionError("not JSON (%s): %r" % (error, text)) from error


def main(*tests):
    print("1..%d" % len(tests))
    failed = 0
    for i, test in enumerate(tests, 1):
        name = (test.__doc__ or test.__name__).strip()
        try:
            test()
            print("ok %d - %s" % (i, name))
        except Exception:
            failed += 1
            print("not ok %d - %s" % (i, name))
            for line in traceback.format_exc().splitlines():
                print("# " + line)
    sys.exit(1 if failed else 0)
