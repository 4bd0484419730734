#!/usr/bin/env python3
"""Checks the documentation as text: width of lines, length of sentences and paragraphs, links, names of files, functions
and tests, banned phrases.

usage: check_prose.py ROOT

Looks at docs/**/*.md, README.md and CONTRIBUTING.md. Prose is what is no code, table or heading. What is banned, docs/style.md says.
"""
import pathlib
import re
import sys

WIDTH, NARROW = 160, 120
MOST_WORDS_OF_A_SENTENCE, MOST_WORDS_OF_A_PARAGRAPH = 40, 120
MADE_PAGES = "docs/reference/"  # from the settings, the headers and the docstrings: their words are checked there
STRICT = re.compile(r"docs/|CONTRIBUTING\.md|README\.md")
NAMES = re.compile(r"docs/explanation/|docs/(design|style)\.md|CONTRIBUTING\.md")  # where files and tests are named for certain
SUFFIXES = {".cpp", ".h", ".py", ".md", ".js", ".css", ".toml", ".txt", ".svg"}
MADE = re.compile(r"build|^(checkpoint|run|results|sweep|history|predictions|spectrum|report|model)\.")  # by running something


def anchor_of(heading):
    text = re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Page:
    def __init__(self, path, name):
        self.path, self.name = path, name
        self.prose, self.tables, self.anchors, self.paragraphs = [], [], set(), []
        code, comment, paragraph = False, False, None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            fence = line.lstrip().startswith(("```", ":::"))
            comment = comment or line.startswith("<!--")
            plain = not (fence or code or comment or line.startswith("    "))
            if fence and line.lstrip().startswith("```"):
                code = not code
            if comment and "-->" in line:
                comment = False
            starts = re.match(r"\s*([-*]|\d+\.) ", line)
            if plain and line.startswith("#"):
                self.anchors.add(anchor_of(line.lstrip("#")))
            elif plain and line.lstrip().startswith("|"):
                self.tables.append((number, line))
            elif plain and line.strip() and not line.startswith(("<", "![", "---")):
                self.prose.append((number, line))
                if paragraph is None or starts:
                    paragraph = [number, ""]
                    self.paragraphs.append(paragraph)
                paragraph[1] += " " + line.strip()
                continue
            if not plain or not line.strip() or line.startswith(("#", "|", "<", "![")):
                paragraph = None


def words_of(text):
    text = re.sub(r"`[^`]*`|\[([^]]*)\]\([^)]*\)", r"\1 x", text)
    return [word for word in text.split() if re.search(r"[A-Za-z]{2}|^[aI]$", word)]


def banned_phrases(root, kind):
    """The list of docs/style.md, for kind "prose" or "messages"."""
    block = re.search(r"^```banned\n(.*?)^```", (root / "docs/style.md").read_text(), re.M | re.S)
    marked = [re.fullmatch(r"(?:(prose|messages): )?(.+)", line) for line in block.group(1).splitlines() if line]
    return [re.compile(phrase[2], re.I) for phrase in marked if phrase[1] in (None, kind)]


def without_code(line):
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "``", line)


def broken_links(page, pages, root):
    lines = page.prose + page.tables + [(n, l) for n, l in enumerate(page.path.read_text().splitlines(), 1) if l.startswith("![")]
    for number, line in lines:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"\w+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (page.path.parent / file).resolve() if file else page.path
            if not path.exists():
                yield number, f"a link to {target}, which is not there"
            elif anchor and path.suffix == ".md":
                name = path.relative_to(root).as_posix()
                known = (pages.get(name) or Page(path, name)).anchors
                if anchor not in known:
                    yield number, f"a link to {target}: that page has no such heading"


class Sources:
    """What names of files, functions and tests may mean."""

    def __init__(self, root):
        self.root = root
        self.tests, self.suites = set(), set()
        for source in root.glob("tests/*/*.cpp"):
            for suite, name in re.findall(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", source.read_text()):
                self.tests.add(f"{suite}.{name}")
                self.suites.add(suite)
        self.words = {}

    def file_exists(self, name):
        names = [name.replace("{h,cpp}", end) for end in ("h", "cpp")] if "{h,cpp}" in name else [name]
        return all((self.root / top / each).exists() for each in names for top in self.tops(each))

    def tops(self, name):
        return [next((top for top in ("", "cdt", "docs") if (self.root / top / name).exists()), "")]

    def has_word(self, module, word):
        folder = self.root / "cdt" / module
        if module not in self.words and folder.is_dir():
            text = "".join(path.read_text() for path in folder.rglob("*") if path.suffix in {".h", ".cpp"})
            self.words[module] = set(re.findall(r"\w+", text))
        return word in self.words.get(module, {word})

    def lacks(self, name):
        """What is wrong with a name in backticks; None if nothing is, or it is none of these."""
        test = re.fullmatch(r"([A-Z]\w*)\.([A-Z]\w*|\*)", name)
        if test:
            known = test[1] in self.suites if test[2] == "*" else name in self.tests
            return None if known else "there is no such test"
        function = re.fullmatch(r"(\w+)::(\w+)", name)
        if function:
            return None if self.has_word(*function.groups()) else f"cdt/{function[1]}/ has no such name"
        path = re.fullmatch(r"[\w./{},-]+", name)
        if not path or name.startswith("torch/") or re.search("NAME|MODULE|COMMAND", name) or MADE.search(name):
            return None
        is_file = "/" in name and pathlib.PurePath(name.replace(".{h,cpp}", ".h")).suffix in SUFFIXES
        if is_file or (name.endswith("/") and "/" in name):
            return None if self.file_exists(name) else "there is no such file"
        return None


def findings(root):
    files = sorted(root.glob("docs/**/*.md")) + [root / "README.md", root / "CONTRIBUTING.md"]
    pages = {path.relative_to(root).as_posix(): Page(path, path.relative_to(root).as_posix()) for path in files}
    banned, sources = banned_phrases(root, "prose"), Sources(root)
    for name, page in pages.items():
        for number, what in broken_links(page, pages, root):
            yield name, number, what
        if NAMES.match(name):
            for number, line in page.prose + page.tables:
                for token in re.findall(r"`([^`]+)`", line):
                    if reason := sources.lacks(token):
                        yield name, number, f"`{token}`: {reason}"
        if name.startswith(MADE_PAGES):
            continue
        strict = bool(STRICT.match(name))
        most = NARROW if strict else WIDTH
        for number, line in page.prose:
            if len(line) > most:
                yield name, number, f"{len(line)} characters; expected at most {most}"
        for number, line in [] if name == "docs/style.md" else page.prose + page.tables:
            for phrase in banned:
                if match := phrase.search(without_code(line)):
                    yield name, number, f"'{match.group(0)}' is banned by docs/style.md"
        for number, text in page.paragraphs if strict else []:
            if len(words_of(text)) > MOST_WORDS_OF_A_PARAGRAPH:
                yield name, number, f"a paragraph of {len(words_of(text))} words; expected at most {MOST_WORDS_OF_A_PARAGRAPH}"
            for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[])", text):
                if len(words_of(sentence)) > MOST_WORDS_OF_A_SENTENCE:
                    yield name, number, f"a sentence of {len(words_of(sentence))} words; expected at most {MOST_WORDS_OF_A_SENTENCE}"


if __name__ == "__main__":
    found = list(findings(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    for page, line, problem in found:
        print(f"{page}:{line}: {problem}")
    print(f"{len(found)} problems" if found else "the prose is as docs/style.md has it")
    sys.exit(bool(found))
