# SPDX-License-Identifier: BSD-2-Clause
"""The messages that the sources have for people, found by reading them.

A message is the text that a call hands to a parameter named `format`, `message` or `refusal`,
or puts into the `message` of an error, or one of the array `step_text`. Not taken: what goes to the
daemon's log alone, and what `doctor` finds, each of which has tests of its own.
"""
import glob
import os
import re

from clilib import ROOT

# Functions whose text is no message of a command: (file, name).
NOT_TAKEN = {
    ("user/daemon.c", "say"), ("user/session.c", "say"),  # the daemon's log
    ("policy/image.c", "broken"),  # relayed by "broken image: %s"; unit/policy_image.c
    ("user/probe.h", "rf_finding_add"), ("user/probe.c", "rf_finding_add"),  # doctor's findings: unit/probe.c, live/doctor.test
}
STRING = r'"(?:\\.|[^"\\])*"'
# No letter but those of conversions: it passes on what others say.
CONVERSION = r"%[-0-9.*]*(?:ll|z|h|l)?[a-zA-Z]"


def without_comments(text):
    return re.sub(r"%s|'(?:\\.|[^'\\])*'|//[^\n]*|/\*.*?\*/" % STRING,
                  lambda m: m[0] if m[0][0] in "\"'" else " ", text, flags=re.DOTALL)


def arguments(text, at):
    """What is between the parenthesis before `at` and the one that closes it, in parts."""
    parts, depth, begin = [], 0, at
    while True:
        literal = re.compile(r"%s|'(?:\\.|[^'\\])*'" % STRING).match(text, at)
        if literal:
            at = literal.end()
            continue
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}" and depth:
            depth -= 1
        elif text[at] == ")" or (text[at] == "," and not depth):
            parts.append(text[begin:at])
            begin = at + 1
            if text[at] == ")":
                return parts
        at += 1


def literals(expression, macros):
    """The texts that an expression may be: adjacent literals are one, those of ?: are several."""
    name = expression.strip()
    if name in macros:
        expression = macros[name]
    for run in re.findall(r"%s(?:\s*%s)*" % (STRING, STRING), expression):
        text = "".join(piece[1:-1] for piece in re.findall(STRING, run))
        yield re.sub(r"\\(x[0-9a-f]{2}|.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text)


def messages():
    """{text with its conversions: the places that say it}"""
    files = {os.path.relpath(path, ROOT): without_comments(open(path, encoding="utf-8").read())
             for folder in ("policy", "user", "tools")
             for path in glob.glob(os.path.join(ROOT, folder, "*.[ch]"))}
    macros, makers = {}, {}
    for file, text in files.items():
        for name, value in re.findall(r"#define (\w+)[ \t\\\n]+(%s)" % STRING, text):
            macros[name] = value
        # Functions by their parameters; a macro passes __VA_ARGS__ on to the format.
        for m in re.finditer(r"\b(\w+)\(", text):
            parameters = arguments(text, m.end())
            for i, parameter in enumerate(parameters):
                wanted = r"\s*const char \*(format|message|refusal)\s*$"
                if m[1].isupper():
                    wanted = r"\s*\.\.\.\s*$"
                if re.match(wanted, parameter) and (file, m[1]) not in NOT_TAKEN:
                    makers[(file if file.endswith(".c") else None, m[1])] = i
    found = {}
    for file, text in sorted(files.items()):
        places = []
        for m in re.finditer(r"\b(\w+)\(", text):
            i = makers.get((file, m[1]), makers.get((None, m[1])))
            if (file, m[1]) in NOT_TAKEN:
                continue
            parts = arguments(text, m.end()) if i is not None or m[1] == "snprintf" else ()
            if i is not None and len(parts) > i:
                places.append(parts[i])
            elif len(parts) > 2 and re.search(r"->message\s*$", parts[0]):
                places.append(parts[2])
        for m in re.finditer(r"\bstep_text\[\] = \{(.*?)\};", text, re.DOTALL):
            places += m[1].split(",\n")
        for place in places:
            for message in literals(place, macros):
                if re.search(r"[a-zA-Z]", re.sub(CONVERSION, "", message)):
                    found.setdefault(message, set()).add(file)
    return found


def pattern(message):
    """The regular expression of all texts that a message can become."""
    parts = re.split("(%s|%%%%)" % CONVERSION, message)
    return "".join(r"[\s\S]*" if part.startswith("%") else re.escape(part) for part in parts)
