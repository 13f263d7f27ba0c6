#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a library must not do: print, read the environment, exit, sleep, start threads, handle signals; allocate
past lib/base/mem.c; copy strings without a size. Looks at lib/; lib/base/path.c alone may read PATH."""
import re

import tree

BANNED = {
    "getenv": "reads the environment", "secure_getenv": "reads the environment",
    "setenv": "changes the environment", "unsetenv": "changes the environment", "putenv": "changes the environment",
    "printf": "prints", "fprintf": "prints", "vprintf": "prints", "vfprintf": "prints", "puts": "prints",
    "fputs": "prints", "putchar": "prints", "perror": "prints", "syslog": "prints", "error": "prints",
    "exit": "ends the process", "abort": "ends the process", "quick_exit": "ends the process",
    "atexit": "acts at the process's end", "on_exit": "acts at the process's end",
    "sleep": "sleeps", "usleep": "sleeps", "nanosleep": "sleeps", "clock_nanosleep": "sleeps",
    "pthread_create": "starts a thread", "thrd_create": "starts a thread",
    "signal": "handles signals", "sigaction": "handles signals", "sigset": "handles signals",
    "alarm": "raises signals", "setitimer": "raises signals",
    "wait": "reaps the caller's children", "wait3": "reaps the caller's children",
    "system": "runs a shell", "popen": "runs a shell",
    "malloc": "allocates past mem.c", "calloc": "allocates past mem.c", "realloc": "allocates past mem.c",
    "reallocarray": "allocates past mem.c", "strdup": "allocates past mem.c", "strndup": "allocates past mem.c",
    "asprintf": "allocates past mem.c", "vasprintf": "allocates past mem.c",
    "strcpy": "copies without a size", "strcat": "copies without a size", "sprintf": "copies without a size",
    "vsprintf": "copies without a size", "gets": "reads without a size", "dup": "copies an fd without CLOEXEC",
}
# file -> words that it may use: each is the one door to what the word does.
ALLOWED = {
    "lib/base/mem.c": {"malloc", "calloc", "realloc", "reallocarray", "strdup", "strndup", "vasprintf"},
    "lib/base/path.c": {"getenv", "secure_getenv"},
}
# Only between fork and exec, where the signal dispositions of the caller must not reach the child.
CHILD_ONLY = {"sigaction", "signal"}
CHILD_FILES = re.compile(r"^lib/base/(proc|child|spawn)\w*\.c$")

_CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")


def check(root):
    complaints = []
    for path in tree.files(root, (".c", ".h"), rooms=("lib",)):
        code = tree.code_only(tree.read(root, path))
        code = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", code)
        for match in _CALL.finditer(code):
            word = match.group(1)
            if word not in BANNED or word in ALLOWED.get(path, ()):
                continue
            if word in CHILD_ONLY and CHILD_FILES.match(path):
                continue
            line = code.count("\n", 0, match.start()) + 1
            complaints.append(f"{path}:{line}: {word}() {BANNED[word]}")
        for match in re.finditer(r"\bstruct\s+sigaction\b|\bwaitpid\s*\(\s*-\s*1\b|\bP_ALL\b", code):
            if "sigaction" in match.group(0) and CHILD_FILES.match(path):
                continue
            line = code.count("\n", 0, match.start()) + 1
            complaints.append(f"{path}:{line}: {match.group(0)} touches what is the caller's")
    return complaints


if __name__ == "__main__":
    tree.run(check, __doc__)
