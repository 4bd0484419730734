"""Sphinx's settings for the site, and how docstrings and headers become its reference. docs/site.py runs Sphinx."""
import os
import re

from pygments.lexers.shell import BashLexer
from pygments.lexers.special import TextLexer
from sphinx.domains.cpp import CPPDomain

project = "cdt"
author = "the authors of cdt"
copyright = "the authors of cdt, Apache 2.0"
version = release = os.environ.get("CDT_VERSION", "")
root_doc = "docs/index"
html_title = f"cdt {version}"
html_theme = "furo"
html_extra_path = ["extra"]
html_static_path = ["docs/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
templates_path = []
exclude_patterns = ["extra"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autoclass_content = "class"
# What else is rendered of an estimator comes from scikit-learn, in a form of its own.
autodoc_default_options = {"members": True, "exclude-members": "set_fit_request, set_predict_request, set_score_request, score, get_params, set_params"}
suppress_warnings = ["config.cache"]


def _field(lines):
    """name   what it is, on lines that go on indented: a list of fields, as far as it goes."""
    fields = []
    for line in lines:
        start = re.match(r"([\w.]+(?:, [\w.]+)*)  +(\S.*)$", line)
        if start:
            fields.append([start[1], start[2]])
        elif fields and line.startswith("  "):
            fields[-1][1] += " " + line.strip()
        else:
            return None
    return fields


def docstring_to_rst(app, what, name, obj, options, lines):
    """Our docstrings are text for terminals: paragraphs, columns of names and meanings, doctests, indented parts."""
    paragraphs, out = re.split(r"\n\s*\n", "\n".join(lines).strip("\n")), []
    for paragraph in paragraphs:
        rows = paragraph.split("\n")
        fields = _field(rows)
        if rows[0].startswith(">>>"):
            out += rows
        elif fields:
            out += [line for key, text in fields for line in (f"``{key}``", f"   {_escape(text)}", "")]
        elif rows[0].startswith("  "):
            out += ["::", "", *("   " + row for row in rows)]
        else:
            out.append(_escape(" ".join(row.strip() for row in rows)))
        out.append("")
    lines[:] = out


def _escape(text):
    """Markup of reStructuredText that these docstrings do not mean; `code` is code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join("`" + part + "`" if part.startswith("`") else re.sub(r"([*_|\\])", r"\\\1", part) for part in parts)


def setup(app):
    all_objects = CPPDomain.get_objects  # parameters of functions are in no search
    CPPDomain.get_objects = lambda self: (entry for entry in all_objects(self) if not entry[2].endswith("Param"))
    app.add_lexer("banned", TextLexer)  # a list in docs/style.md
    app.add_lexer("console", BashLexer)  # commands without a prompt
    app.connect("autodoc-process-docstring", docstring_to_rst)
