# SPDX-License-Identifier: BSD-2-Clause
"""What the live tests share: fixtures, sessions, probes, events, and TAP.

A live test is an executable selftests/live/NAME.test that imports this and calls
test(...) for each thing it shows. It runs as root in a VM; sessions run as the
user `agent`. See selftests/live/README.md.
"""
import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

PROBE = os.environ.get("PROBE", "/in/probe")
AGENT = pwd.getpwnam("agent")
ALLOWED, DENIED, OTHER, NOT_ATTEMPTED = 0, 10, 11, 12
# Seconds that a race takes.
RACE_S = float(os.environ.get("RACE_S") or (10 if os.environ.get("RF_LONG") else 5))

# Other sessions, under policies named hammer-*, run all the time (boots/preempt.test): the daemon is theirs, too.
SHARED = bool(os.environ.get("RF_SHARED"))


def often(times):
    """How often something has to happen in a race to be worth a look, `times` a second; less where others run."""
    return max(2, times * RACE_S / (20 if SHARED else 1))


_count = 0
_failed = 0
_kept = False  # keep_daemon() was called: True, or the daemon
_processes = []  # started by a test; those that a failed test leaves are killed


def test(name):
    """Run the decorated function as one TAP test; an exception is a failure. With RF_ONLY set, only
    those are run whose names have that text in them."""

    def run(function):
        global _count, _failed, _kept
        if os.environ.get("RF_ONLY", "") not in name:
            return function
        _count += 1
        try:
            if _kept and not daemon_pid():
                _kept = spawn_daemon(open("/tmp/ringfenced.log", "a"))
            function()
            print(f"ok {_count} - {name}", flush=True)
        except Exception:
            _failed += 1
            _clean_up()
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            print(f"not ok {_count} - {name}", flush=True)
        return function

    return run


def spawn(argv, **kw):
    """A process that does not outlive a test that fails."""
    process = subprocess.Popen(argv, **kw)
    _processes.append(process)
    return process


def _clean_up():
    """After a failure, so that the next test starts from nothing: sessions end with their
    `run`, daemons are stopped."""
    for process in _processes:
        if process.poll() is None:
            process.kill()
            process.wait()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        out = subprocess.run(["ringfence", "ps", "--json"], capture_output=True, text=True)
        if out.returncode or json.loads(out.stdout) == []:
            break
        time.sleep(0.1)
    subprocess.run(["pkill", "-x", "ringfenced"])
    _processes.clear()


def done():
    """The plan, and the exit status; no daemon is left for the next file to meet."""
    if isinstance(_kept, subprocess.Popen):
        _kept.terminate()
        _kept.wait()
    end = time.monotonic() + 10
    while not SHARED and daemon_pid() and time.monotonic() < end:
        time.sleep(0.05)
    print(f"1..{_count}", flush=True)
    sys.exit(1 if _failed else 0)


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def equal(have, want, *what):
    check(have == want, *what, f"have {have!r}, want {want!r}")


def until(condition, what, seconds=90):
    """Wait for a condition, not for a time."""
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, "timed out:", what)
        time.sleep(0.02)


# ---- fixtures ----------------------------------------------------------------

def own(path):
    """Give a tree to the agent, so that only policy can deny it anything."""
    for root, dirs, files in os.walk(path):
        os.chown(root, AGENT.pw_uid, AGENT.pw_gid)
        for name in dirs + files:
            os.lchown(os.path.join(root, name), AGENT.pw_uid, AGENT.pw_gid)


def write(path, text, mode=0o644):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def fixture_fs():
    """The fixture FS of the cases: /t/secret/key, /t/secret/sub/deep, /t/work."""
    shutil.rmtree("/t", ignore_errors=True)
    os.makedirs("/t/secret/sub")
    os.makedirs("/t/work")
    write("/t/secret/key", "TOPSECRET\n")
    write("/t/secret/sub/deep", "D\n")
    own("/t")


def policy(rules, name="p", extra=""):
    """A policy file of `rules`, a list of (verb, rights, [paths])."""
    text = f"ringfence: 1\nname: {name}\n{extra}files:\n"
    for verb, rights, paths in rules:
        text += f"  - {verb}: {rights}\n    paths:\n"
        for path in paths:
            text += f"      - {json.dumps(path)}\n"
    directory = tempfile.mkdtemp(prefix="policy-")
    os.chmod(directory, 0o755)
    return write(os.path.join(directory, name + ".yaml"), text)


def policy_fs():
    """P-FS: allow everything, deny everything under /t/secret."""
    return policy([("allow", "all", ["/"]), ("deny", "all", ["/t/secret"])], "p-fs")


def snapshot(*paths):
    """What must not change when an act is denied."""
    shot = {}
    for top in paths:
        for root, dirs, files in os.walk(top) if os.path.isdir(top) else [(top, [], [])]:
            for path in [root] + [os.path.join(root, n) for n in dirs + files]:
                st = os.lstat(path)
                content = None
                if os.path.isfile(path) and not os.path.islink(path):
                    with open(path, "rb") as f:
                        content = f.read()
                shot[path] = (st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ino, content)
    return shot


# ---- sessions ----------------------------------------------------------------

class Session:
    """A command under `ringfence run`, as the agent, with its events."""

    def __init__(self, policy_file, argv, audit=False, user="agent", cwd="/t/work", stdin=None,
                 stdout=subprocess.PIPE, options=()):
        fd, self.events_file = tempfile.mkstemp(prefix="events-")
        os.close(fd)
        command = ["ringfence", "run", "--policy", policy_file, "--events", self.events_file]
        if user:
            command += ["--user", user]
        if audit:
            command.append("--audit")
        command += list(options) + ["--"] + list(argv)
        self.process = spawn(command, cwd=cwd, stdin=stdin or subprocess.DEVNULL, stdout=stdout,
                             stderr=subprocess.PIPE)

    def wait(self, seconds=120):
        out, err = self.process.communicate(timeout=seconds)
        self.out = (out or b"").decode(errors="replace")
        self.err = err.decode(errors="replace")
        self.status = self.process.returncode
        return self

    def events(self):
        with open(self.events_file) as f:
            # The last line may be half written as yet.
            return [json.loads(line) for line in f.read().split("\n")[:-1]]


class Opener(Session):
    """A process of a session that opens a path each time it is asked to."""

    def __init__(self, policy_file, path, mode="r", **kw):
        super().__init__(policy_file, [PROBE, "wait", path, mode], stdin=subprocess.PIPE, **kw)

    def ask(self):
        """0, or the errno of the open."""
        self.process.stdin.write(b"x")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdin = None
        return self.wait()


class Held(Session):
    """A session whose command goes on until it is told to leave, so that it can be looked at."""

    def __init__(self, policy_file, argv, **kw):
        script = shlex.join(argv) + "; echo $?; read x"
        super().__init__(policy_file, ["sh", "-c", script], stdin=subprocess.PIPE, **kw)

    def status_of(self):
        line = self.process.stdout.readline()
        check(line, "no status:", line or self.wait().err)
        return int(line)

    def counters(self):
        found = [s for s in sessions() if s["pid"] == self.process.pid]
        equal(len(found), 1, sessions())
        return found[0]["counters"]

    def name(self):
        return [s["session"] for s in sessions() if s["pid"] == self.process.pid][0]

    def leave(self):
        self.process.stdin.close()
        self.process.stdin = None
        return self.wait()


def act_line(kind, flags, target):
    """For stdin of `probe acts`."""
    written = "".join(c if 32 < ord(c) < 127 and c != "\\" or kind != "open" and c == " " else
                      "".join(f"\\x{b:02x}" for b in os.fsencode(c)) for c in target)
    return f"{kind} {flags} {written}\n".encode()


class Actor(Session):
    """A process of a session that does acts one after the other, under one policy after the other."""

    def __init__(self, user="agent", cwd="/", options=(), rights="all", probe=PROBE):
        first = policy([("allow", rights, ["/"])], "before")
        super().__init__(first, [probe, "acts"], stdin=subprocess.PIPE, user=user, cwd=cwd, options=options)
        until(lambda: [s for s in sessions() if s["pid"] == self.process.pid and s.get("tasks")], "the session")
        self.name = [s["session"] for s in sessions() if s["pid"] == self.process.pid][0]

    def obey(self, policy_file):
        out = subprocess.run(["ringfence", "reload", self.name, policy_file], capture_output=True, text=True)
        equal(out.returncode, 0, "reload:", policy_file, out.stderr)

    def act(self, kind, flags, target):
        """0, or the errno. See `probe acts`."""
        self.process.stdin.write(act_line(kind, flags, target))
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        check(line, "no answer:", line or self.wait().err)
        return int(line)

    def close(self):
        self.process.stdin.close()
        self.process.stdin = None
        return self.wait()


def lost(events):
    return [e for e in events if e["op"] == "lost"]


def total(events):
    return sum(e["count"] for e in events)


def adds_up(counters):
    equal(counters["seen"], counters["written"] + counters["coalesced"] + counters["lost"], counters)


def escaped(path):
    """A path as events and `explain` write it."""
    text = ""
    for c in path:
        if 0xdc80 <= ord(c) <= 0xdcff:
            text += f"\\x{ord(c) - 0xdc00:02x}"
        elif ord(c) < 32 or ord(c) == 127:
            text += f"\\x{ord(c):02x}"
        else:
            text += "\\\\" if c == "\\" else c
    return text


def run(policy_file, argv, **kw):
    return Session(policy_file, argv, **kw).wait()


def unconfined(argv, cwd="/t/work", user="agent"):
    """The control: the same command as the same user, in no session."""
    return subprocess.run(["runuser", "-u", user, "--"] + list(argv), cwd=cwd, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True)


def denials(events, verdict="deny"):
    return [e for e in events if e.get("verdict") == verdict]


def stops(policy_file, argv, path, rights=None, op="open", rule="deny", guard=("/t",), control=True,
          reset=None, reason=None, cwd="/t/work", layers=False):
    """The act `argv` (a probe, from `cwd`) works unconfined, is denied in a session with
    exactly the event for `path`, leaves what lies under `guard` as it was, and in
    audit mode works with the same event as would-deny. With `layers` the kernel opens
    more than one file for one act, which audit mode tells."""
    def prepare():
        if reset:
            reset()

    if control:
        prepare()
        free = unconfined(argv, cwd=cwd)
        equal(free.returncode, ALLOWED, "control:", argv, free.stderr)
    prepare()
    before = snapshot(*guard)
    session = run(policy_file, argv, cwd=cwd)
    equal(session.status, DENIED, "enforce:", argv, session.err, session.out)
    equal(snapshot(*guard), before, "enforce: something changed")
    expect_event(session, "deny", path, rights, op, rule, reason)
    prepare()
    session = run(policy_file, argv, cwd=cwd, audit=True)
    equal(session.status, ALLOWED, "audit:", argv, session.err, session.out)
    expect_event(session, "would-deny", path, rights, op, rule, reason, layers)
    return session


def expect_event(session, verdict, path, rights=None, op="open", rule="deny", reason=None, layers=False):
    events = denials(session.events(), verdict)
    if layers:
        # The overlay's file, and under the same rule that in its layer, at most once more.
        same = [[e[key] for key in ("op", "path", "rights", "reason")] + [e.get("rule"), e.get("default")]
                for e in events]
        if len(same) == 2 and same[0] == same[1]:
            events = events[:1]
    equal([e["path"] for e in events], [path], verdict, "events:", session.events(), session.err)
    event = events[0]
    equal(event["op"], op, event)
    if rights:
        equal(sorted(event["rights"]), sorted(rights), event)
    if rule == "default":
        check(event.get("default"), "default expected:", event)
    elif rule:
        check(event["rule"]["text"].startswith(rule), "rule:", event)
        check(event["rule"]["line"] > 0 and event["rule"]["file"], event)
    if reason:
        equal(event["reason"], reason, event)
    check(event["pid"] > 0 and event["tgid"] > 0 and event["session"] and event["comm"], event)
    for other in ("deny", "would-deny"):
        if other != verdict:
            equal(denials(session.events(), other), [], "no such events expected")


def admits(policy_file, argv, cwd="/t/work"):
    """The act works in a session, without a denial."""
    session = run(policy_file, argv, cwd=cwd)
    equal(session.status, ALLOWED, "enforce:", argv, session.err, session.out)
    equal(denials(session.events()), [], "no denial expected")
    return session


def running():
    """Does a daemon answer?"""
    out = subprocess.run(["ringfence", "status", "--json"], capture_output=True, text=True)
    return out.returncode == 0 and json.loads(out.stdout)["running"]


def keep_daemon():
    """Have a daemon that stays from test to test, to the end of the file, from the next test on: each
    that comes on demand loads the programs anew, which takes an emulated machine seconds."""
    global _kept
    daemon_leaves()
    _kept = not SHARED and (_kept or True)


def daemon_leaves():
    """One that was started on demand goes when nobody needs it any more."""
    if not SHARED:
        until(lambda: daemon_pid() is None, "the daemon on demand to leave")


def end_daemon():
    """That of spawn_daemon(), when its sessions have ended."""
    until(lambda: not sessions(), "the sessions to end")
    if daemon_pid() and not SHARED:
        kill(daemon_pid(), signal.SIGTERM)
    for process in _processes:
        if STAND_IN in process.args:
            process.terminate()


STAND_IN = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); signal.pause()"


def spawn_daemon(stderr=subprocess.PIPE):
    """A daemon that stays, ready; where one does anyway, a process that ends in its place."""
    if SHARED and daemon_pid():
        return spawn(["/usr/bin/python3", "-c", STAND_IN], stderr=stderr, text=True)
    daemon_leaves()
    daemon = spawn(["ringfenced"], stderr=stderr, text=True)
    until(lambda: running() and daemon_pid() == daemon.pid, "the daemon")
    return daemon


# A socket in the place of the daemon's, in a mount namespace of its own, records what
# `ringfence reload` sends for each policy; that is then sent to the daemon itself in turn, much
# faster than the command could be started.
SWAPPER = r"""
import json, os, socket, subprocess, sys, tempfile, time
name, seconds, files = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
place = tempfile.mkdtemp()
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("/run/ringfence/control.sock")
    return s
def call(s, text, fds):
    socket.send_fds(s, [text], fds)
    return s.recv(1 << 16)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(place + "/control.sock")
listener.listen()
def record(file):
    daemon, said = connect(), []
    child = subprocess.Popen(["unshare", "-m", "sh", "-c",
                              f"mount --bind {place} /run/ringfence && exec ringfence reload {name} {file}"],
                             stdout=subprocess.DEVNULL)
    client = listener.accept()[0]
    while True:
        text, fds, _, _ = socket.recv_fds(client, 1 << 16, 253)
        if not text:
            break
        if fds:
            said.append((text, fds))
            client.send(b'{"ok":true}')
        else:
            daemon.send(text)
            reply, fds, _, _ = socket.recv_fds(daemon, 1 << 16, 253)
            socket.send_fds(client, [reply], fds)
    assert child.wait() == 0
    return said
said = [record(file) for file in files]
daemon = connect()
begin, n = time.monotonic(), 0
print("go", flush=True)
while time.monotonic() < begin + seconds:
    for text, fds in said[n % len(said)]:
        reply = json.loads(call(daemon, text, fds))
        assert reply["ok"], reply
    n += 1
    time.sleep(max(0, begin + n * 0.1 - time.monotonic()))
print(n, time.monotonic() - begin, flush=True)
"""


class Swapper:
    """Swaps a session's policy among `files`, ten times in a second where the machine can."""

    def __init__(self, name, seconds, files):
        os.setpriority(os.PRIO_PROCESS, daemon_pid(), -20)
        # A swap waits for RCU's grace periods, which are long in emulation. An expedited one
        # waits for the same.
        write("/sys/kernel/rcu_expedited", "1")
        self.process = spawn(["nice", "-n", "-19", "python3", "-c", SWAPPER, name,
                              str(seconds), *files], stdout=subprocess.PIPE, text=True)
        equal(self.process.stdout.readline(), "go\n")

    def wait(self):
        """How many swaps there were, in how many seconds."""
        out, _ = self.process.communicate(timeout=RACE_S + 120)
        write("/sys/kernel/rcu_expedited", "0")
        equal(self.process.returncode, 0, out)
        swaps, seconds = out.split()
        return int(swaps), float(seconds)


def daemon_pid():
    out = subprocess.run(["pgrep", "-x", "ringfenced"], capture_output=True, text=True).stdout
    pids = [int(p) for p in out.split()]
    return pids[0] if pids else None


def sessions():
    out = subprocess.run(["ringfence", "ps", "--json"], capture_output=True, text=True)
    if out.returncode and "takes the sessions over" in out.stderr:
        return []  # a daemon that was started on demand does not answer yet
    check(out.returncode == 0, out.stderr)
    return [s for s in json.loads(out.stdout) if not (SHARED and s["policy"].startswith("hammer-"))]


def kill(pid, sig=signal.SIGKILL):
    os.kill(pid, sig)
