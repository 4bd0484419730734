#!/usr/bin/env python3
"""How the guide reads: check_reading.py ROOT

Tutorials and how-tos have a Flesch reading ease of 50 or more, a how-to at most 600 words; README at most 120 lines and 900 words. No sentence of these
pages has more than 40 words. All of docs/, without the settings page that is generated, has at most 22 000 words as `wc -w` counts them.
"""
import pathlib
import re
import sys

EASE, LONGEST, ALL = 50, 40, 22000
GENERATED = {"docs/reference/settings.md"}


def prose(text):
    """Paragraphs and items of lists as they are read: no code, tables, headings, comments; of links the words."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"^(#|\|).*$", "", text, flags=re.M)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n", text, flags=re.M)
    return [" ".join(part.replace("*", "").split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def sentences(paragraph):
    """What stands in code marks is a name: it counts as one short word, and its points end nothing."""
    paragraph = re.sub(r"`[^`]*`", "code", paragraph)
    return [part for part in re.split(r"(?<=[.!?])[\"')]*\s+", paragraph) if re.search(r"[A-Za-z]", part)]


def words(sentence):
    return re.findall(r"[A-Za-zÀ-ÿ][\w'’-]*", sentence)


def syllables(word):
    """Groups of vowels, less a silent e."""
    word = re.sub(r"[^a-z]", "", word.lower())
    count = len(re.findall(r"[aeiouy]+", word))
    if re.search(r"[^aeiouyl]e$|[^aeiouytd]ed$|[^aeiouycgsxzh]es$", word) and count > 1:
        count -= 1
    return max(count, 1)


def ease(paragraphs):
    """206.835 − 1.015 words a sentence − 84.6 syllables a word (Flesch 1948)."""
    all_sentences = [words(s) for p in paragraphs for s in sentences(p)]
    all_sentences = [s for s in all_sentences if s]
    count = sum(map(len, all_sentences))
    return 206.835 - 1.015 * count / len(all_sentences) - 84.6 * sum(syllables(w) for s in all_sentences for w in s) / count


def main(root):
    failures = []
    pages = sorted([*root.glob("docs/tutorials/*.md"), *root.glob("docs/how-to/*.md")])
    if not pages:
        failures.append("docs/tutorials and docs/how-to have no pages")
    for page in [*pages, root / "README.md"]:
        name, text = page.relative_to(root), page.read_text()
        paragraphs = prose(text)
        for paragraph in paragraphs:
            failures += [f"{name}: a sentence of {len(words(s))} words: {s[:80]}…" for s in sentences(paragraph) if len(words(s)) > LONGEST]
        total = len(text.split())
        if page in pages:
            score = ease(paragraphs)
            print(f"{score:5.1f} {total:5d} words  {name}")
            if score < EASE:
                failures.append(f"{name}: reading ease {score:.1f}, expected {EASE} or more")
            if page.parent.name == "how-to" and total > 600:
                failures.append(f"{name}: {total} words, expected 600 at most")
        elif total > 900 or text.count("\n") > 120:
            failures.append(f"{name}: {total} words in {text.count(chr(10))} lines, expected 900 in 120 at most")
    total = sum(len(page.read_text().split()) for page in root.glob("docs/**/*.md") if page.relative_to(root).as_posix() not in GENERATED)
    print(f"docs/ has {total} words")
    if total > ALL:
        failures.append(f"docs/ has {total} words, expected {ALL} at most")
    print("\n".join(failures))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
