# SPDX-License-Identifier: BSD-2-Clause
"""What the check-* scripts share: the files to look at, and the report.

A check is a function over all files, {path: text}, that yields complaints
(path, line, message). Before it is believed it has to complain about each of a
few bad samples and about none of the good ones, so a pattern that matches
nothing cannot pass for a clean tree.
"""
import concurrent.futures
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def names():
    """All files that git tracks or would; without git, all but the output."""
    if os.path.exists(os.path.join(ROOT, ".git")):
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"],
            cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
        return sorted(set(filter(None, listed.split("\0"))))
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in (".output", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
    return sorted(found)


def tree():
    """{path: text} of all files; None for the text of a binary one."""
    files = {}
    for name in names():
        path = os.path.join(ROOT, name)
        if not os.path.isfile(path) or os.path.islink(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        try:
            files[name] = None if b"\0" in data else data.decode()
        except UnicodeDecodeError:
            files[name] = None
    return files


def main(check, bad, good, files=None):
    """Run the check on its samples (each a {path: text}) and on the tree; report in TAP."""
    number = 0
    failed = 0

    def report(passed, name, details=()):
        nonlocal number, failed
        number += 1
        failed += not passed
        print("%sok %d - %s" % ("" if passed else "not ", number, name))
        for detail in details:
            print("# " + detail)

    missed = [str(sample) for sample in bad if not list(check(sample))]
    report(bad and not missed, "complains about %d bad samples" % len(bad), missed)
    wrong = [str(found) for sample in good for found in check(sample)]
    report(good and not wrong, "accepts %d good samples" % len(good), wrong)

    files = tree() if files is None else files
    found = ["%s:%d: %s" % complaint for complaint in check(files)]
    report(files and not found, "%d files" % len(files), found)
    print("1..%d" % number)
    sys.exit(1 if failed else 0)


def lint(command, files):
    """A linter over the host's C files: complaints where its exit status says so.

    `command` is called with a path and gives the arguments. Samples, which are
    not in the tree, are written to a temporary folder. What was clean is not
    looked at again until it, a header, the linter or its options change.
    """
    program = shutil.which(command("")[0])
    common = [program, str(os.stat(program).st_mtime_ns)] + \
        [text for path, text in sorted(files.items()) if path.endswith((".h", ".clang-tidy"))]
    cache = os.path.join(ROOT, ".output/lint")
    os.makedirs(cache, exist_ok=True)

    def one(item):
        path, text = item
        target = os.path.join(ROOT, path)
        key = hashlib.sha256("\0".join(common + command(path) + [text]).encode()).hexdigest()
        clean = os.path.join(cache, key)
        with tempfile.TemporaryDirectory() as folder:
            if not os.path.exists(target):
                clean = None
                target = os.path.join(folder, os.path.basename(path))
                with open(target, "w", encoding="utf-8") as file:
                    file.write(text)
            elif os.path.exists(clean):
                return []
            done = subprocess.run(command(target), cwd=ROOT, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()
            errors = [line for line in lines if "error:" in line or "warning:" in line]
            return [(path, 0, "\n# ".join(errors or lines))]
        if clean:
            with open(clean, "w", encoding="utf-8") as file:
                file.write(path + "\n")
        return []

    sources = [(path, text) for path, text in files.items()
               if path.endswith(".c") and path.startswith(("policy/", "user/", "tools/"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(one, sources):
            yield from found


def compile_flags():
    """How the plain build compiles host code, as make has it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    flags = subprocess.run(["make", "-s", "show-flags"], cwd=ROOT, env=env, check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    return shlex.split(flags)
