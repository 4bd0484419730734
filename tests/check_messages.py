#!/usr/bin/env python3
"""Checks the texts that people read: errors, notes, warnings, help, docstrings.

usage: check_messages.py ROOT [--list]

It fails if a text has a phrase that docs/style.md bans, or if the fixed part of an error has more than MOST characters. --list prints every text instead.
"""
import ast
import pathlib
import re
import sys

from check_prose import banned_phrases

MOST = 200

CALLS = r"CDT_REQUIRE|CDT_CHECK|InvalidArgument|NumericalError|IoError|ValueError|TypeError|RuntimeError"
WORD = re.compile(rf"\b({CALLS})\s*[({{]|\b({CALLS})\s+\w+\s*[({{]")
TOKEN = re.compile(
    r'''(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<mark>[^(\s]*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:\\.|[^"\\\n])*)"|(?P<char>'(?:\\.|[^'\\\n])+')|(?P<break>\n)|(?P<other>.)''',
    re.S)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'", "r": "\r", "0": "\0"}


def unescape(text):
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[0]), text)


def tokens_of(source):
    """(kind, text, line): literals and single characters of code, without comments."""
    line = 1
    for match in TOKEN.finditer(source):
        if match["text"] is not None:
            yield "text", unescape(match["text"]), line
        elif match["raw"] is not None:
            yield "text", match["raw"], line
        elif match["char"]:
            yield "code", "'", line
        elif match["comment"] is None:
            yield "code", match[0], line
        line += match[0].count("\n")


def texts_of_cpp(source):
    """(line, text, whether it is an error). Literals side by side are one text; so are those of a call, with … for each value between them."""
    tokens = list(tokens_of(source))
    code = "".join(text if kind == "code" else "\x01" for kind, text, _ in tokens)  # a character a token: places are indices
    assert len(code) == len(tokens)
    taken = set()
    for match in WORD.finditer(code):
        if code[:match.start()].rstrip().endswith(("class", "struct", "#define", "~", "const")):
            continue
        depth, end = 0, match.end() - 1
        while end < len(code):
            depth += code[end] in "({["
            depth -= code[end] in ")}]"
            end += 1
            if depth == 0:
                break
        parts, between = [], ""
        for i in range(match.end(), end):
            kind, text, _ = tokens[i]
            if kind != "text":
                between += text
                continue
            taken.add(i)
            if re.fullmatch(r".*[^:]:\s*", between, re.S) and parts:  # either this or the text before
                text = max(text, parts.pop(), key=len)
            elif parts and "," in between:
                parts.append("…")
            parts.append(text)
            between = ""
        if parts:
            yield tokens[match.start()][2], "".join(parts), True
    i = 0
    include = re.compile(r"#include\s*$")
    while i < len(tokens):
        kind, text, line = tokens[i]
        i += 1
        if kind != "text" or (i - 1) in taken or include.search(code[max(0, i - 20):i - 1]):
            continue
        while i < len(tokens) and (tokens[i][0] == "text" or tokens[i][1].isspace()):
            if tokens[i][0] == "text":
                text += tokens[i][1]
            i += 1
        yield line, text, False


def text_of(node):
    """A text with … for what is not fixed; None if it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None and right is None else (left or "…") + (right or "…")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join"):
        return text_of(node.func.value)
    return None


def texts_of_python(source):
    tree = ast.parse(source)
    seen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                text = text_of(argument)
                if text:
                    seen.update(id(each) for each in ast.walk(argument))
                    yield node.lineno, text, True
    for node in ast.walk(tree):
        if id(node) not in seen and isinstance(node, (ast.JoinedStr, ast.Constant)):
            text = text_of(node)
            if text:
                yield node.lineno, text, False


def all_texts(root):
    for folder in ("cdt", "cli", "python", "experiments"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cpp", ".h") and "assets" not in path.parts:
                found = texts_of_cpp(path.read_text(encoding="utf-8"))
            elif path.suffix in (".py", ".pyi"):
                found = texts_of_python(path.read_text(encoding="utf-8"))
            else:
                continue
            for line, text, error in found:
                yield f"{path.relative_to(root)}:{line}", text, error


def faults(text, error, banned):
    """What is wrong with a text."""
    for phrase in banned:
        match = phrase.search(text)
        if match:
            yield f"“{match[0]}” is banned by docs/style.md"
    fixed = text.replace("…", "")
    if error and len(fixed) > MOST:
        yield f"expected at most {MOST} characters, got {len(fixed)}"


def main():
    root = pathlib.Path(sys.argv[1])
    texts, banned = list(all_texts(root)), banned_phrases(root, "messages")
    if "--list" in sys.argv:
        for place, text, error in texts:
            print(f"{place}:{' error:' if error else ''} {text!r}")
        return 0
    errors = sum(error for _, _, error in texts)
    assert errors > 500, f"expected more than 500 errors in the sources, got {errors}: the collector is broken"
    wrong = [(place, text, fault) for place, text, error in texts for fault in faults(text, error, banned)]
    for place, text, fault in wrong:
        print(f"{place}: {fault}\n    {text.strip()[:300]!r}")
    print(f"{len(texts)} texts, {errors} of them errors, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
