#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The header is the manual: each public function carries a complete doc block whose parameters are those of the
prototype, with Valid in, Threads, Since and (unless it is void) Return lines."""
import re

import headers
import tree


def sections(block):
    """Doc block -> (first line, {parameter: text}, {section: text})."""
    lines = [re.sub(r"^ \* ?", "", line) for line in block.split("\n")]
    first = lines[0] if lines else ""
    parameters, named, last = {}, {}, None
    for line in lines[1:]:
        param = re.match(r"@(\w+):\s*(.*)", line)
        section = re.match(r"(Valid in|Threads|Since|Return):\s*(.*)", line)
        if param:
            last = (parameters, param.group(1))
            parameters[param.group(1)] = param.group(2)
        elif section:
            last = (named, section.group(1))
            named[section.group(1)] = section.group(2)
        elif not line.strip():
            last = None
        elif last and line.startswith(" "):
            last[0][last[1]] += " " + line.strip()
    return first, parameters, named


def check_function(function):
    if function.block is None:
        return ["has no doc block right above it"]
    first, parameters, named = sections(function.block)
    wrong = []
    if not re.match(re.escape(function.name) + r"\(\) - \S", first):
        wrong.append(f'begins with "{first}" instead of "{function.name}() - purpose"')
    if list(parameters) != function.parameters:
        wrong.append(f"documents {', '.join(parameters) or 'nothing'}; "
                     f"the prototype has {', '.join(function.parameters) or 'nothing'}")
    wrong += [f"says nothing about @{name}" for name, text in parameters.items() if not text.strip()]
    wanted = ["Valid in", "Threads", "Since"]
    if function.returns != "void":
        wanted.append("Return")
    for section in wanted:
        if not named.get(section, "").strip():
            wrong.append(f'has no "{section}:"')
    if named.get("Since", "0.1") and not re.fullmatch(r"\d+\.\d+", named.get("Since", "0.1").strip()):
        wrong.append('"Since:" is no version')
    if function.returns == "void" and "Return" in named:
        wrong.append('is void and has a "Return:"')
    return wrong


def known_codes(root):
    codes = set()
    for path in headers.public_headers(root):
        codes |= set(re.findall(r"\b(CCHV_[A-Z0-9_]+)\b", tree.code_only(tree.read(root, path))))
    return codes


def check(root):
    complaints = []
    found = headers.functions(root)
    if not found:
        return ["include: no public function found"]
    for function in found:
        for wrong in check_function(function):
            complaints.append(f"{function.path}:{function.line}: {function.name}() {wrong}")
    codes = known_codes(root)
    for path in headers.public_headers(root):
        text = re.sub(r'"[^"\n]*"', lambda m: " " * len(m.group(0)), tree.read(root, path))
        for match in re.finditer(r"\bCCHV_[A-Z0-9]+_[A-Z0-9_]*[A-Z0-9]\b", text):
            if match.group(0) not in codes:
                line = text.count("\n", 0, match.start()) + 1
                complaints.append(f"{path}:{line}: {match.group(0)} is defined nowhere")
        names = {f.name for f in found}
        for match in re.finditer(r"\b(cchv_\w+)\(\)", text):
            if match.group(1) not in names:
                line = text.count("\n", 0, match.start()) + 1
                complaints.append(f"{path}:{line}: {match.group(1)}() is declared nowhere")
    return complaints


if __name__ == "__main__":
    tree.run(check, __doc__)
