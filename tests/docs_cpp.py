#!/usr/bin/env python3
"""Makes a program of the C++ in Markdown files: docs_cpp.py OUT.cpp FILE.md ...

Each section (a heading of level one or two; of a tutorial the whole page) with ```cpp blocks is a function that main
calls, in order; the blocks of a section share its scope. Lines of #include go to the top. What readers need not see, such as the data that an example
talks about, stands in a comment: <!--cpp ... -->.
"""
import pathlib
import sys

OPEN = {"```cpp": "```", "<!--cpp": "-->"}


def sections(path):
    """(line, title, code) of each section with code; code is a list of (line, text)."""
    title, code, end, start = "", [], None, 1
    headings = ("# ",) if path.parent.name == "tutorials" else ("# ", "## ")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if end:
            if line.strip() == end:
                end = None
            else:
                code.append((number, line))
        elif line.strip() in OPEN:
            end = OPEN[line.strip()]
        elif line.startswith(headings):
            if code:
                yield start, title, code
            title, code, start = line.lstrip("# "), [], number
    if end:
        sys.exit(f"{path}: a block of code does not end")
    if code:
        yield start, title, code


def program(paths):
    includes, functions, calls = [], [], []
    for path in paths:
        for _, title, code in sections(path):
            name = f"section_{len(calls)}"
            calls.append(f'  std::puts("{path.name}: {title}");\n  {name}();')
            functions.append(f"void {name}() {{")
            for number, text in code:
                if text.startswith("#include"):
                    if text not in includes:
                        includes.append(text)
                else:
                    functions.append(f'#line {number} "{path}"\n{text}')
            functions.append("}")
    return "\n".join(["// Made by tests/docs_cpp.py.", *includes, "#include <cstdio>", "namespace {", *functions,
                      "}  // namespace", "int main() {", *calls, "}", ""])


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(program([pathlib.Path(name) for name in sys.argv[2:]]))
