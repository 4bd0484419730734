"""The C++ reference: Doxygen's XML of the public headers as pages of Sphinx's C++ domain, one a module."""
import pathlib
import re
import xml.etree.ElementTree as ElementTree

DIRECTIVES = {"function": "function", "variable": "member", "typedef": "type", "enum": "enum-class", "struct": "struct", "class": "class", "union": "union"}


def _inline(node):
    """Text with its markup, white space as one blank."""
    text = _escape(node.text or "")
    for child in node:
        if child.tag == "computeroutput":
            text += f"``{''.join(child.itertext()).strip()}``"
        elif child.tag in ("itemizedlist", "orderedlist", "parameterlist", "simplesect", "verbatim", "programlisting"):
            pass  # blocks of their own
        else:
            text += _inline(child)
        text += _escape(child.tail or "")
    return text


def _escape(text):
    return re.sub(r"([*_|`\\])", r"\\\1", re.sub(r"\s+", " ", text))


def _blocks(node):
    """Paragraphs, lists, and what is thrown."""
    for para in node.iter("para"):
        if para in {inner for tag in ("listitem", "parameterdescription", "simplesect") for item in node.iter(tag) for inner in item.iter("para")}:
            continue
        text = _inline(para).strip()
        if text:
            yield [text]
        for child in para:
            if child.tag in ("itemizedlist", "orderedlist"):
                yield ["- " + " ".join(_inline(item).split()) for item in child.findall("listitem")]
            elif child.tag in ("verbatim", "programlisting"):
                yield ["::", "", *("   " + line for line in "".join(child.itertext()).strip("\n").split("\n"))]
            elif child.tag == "simplesect":
                yield [f"*{child.get('kind').capitalize()}:* " + _inline(child).strip()]
            elif child.tag == "parameterlist":
                for item in child.findall("parameteritem"):
                    names = ", ".join("".join(name.itertext()).strip() for name in item.iter("parametername"))
                    verb = "Throws " if child.get("kind") == "exception" else ""
                    yield [f"{verb}**{_escape(names)}** " + " ".join(_inline(part).strip() for part in item.iter("parameterdescription")).strip()]


def _described(entry, indent):
    lines = []
    for part in ("briefdescription", "detaileddescription"):
        node = entry.find(part)
        for block in _blocks(node) if node is not None else ():
            lines += [*(indent + line if line else "" for line in block), ""]
    return lines


def _text(entry, tag):
    node = entry.find(tag)
    return "" if node is None else " ".join("".join(node.itertext()).split())


def _signature(member, scope):
    kind, name = member.get("kind"), _text(member, "name")
    name = f"{scope}::{name}" if scope else name
    template = ""
    parameters = member.find("templateparamlist")
    if parameters is not None:
        template = "template <" + ", ".join(" ".join(filter(None, (_text(p, "type"), _text(p, "declname")))) for p in parameters.findall("param")) + "> "
    kind_of = re.sub(r"\b(static|virtual|inline|explicit|friend|constexpr|const)\b(?= .*\boperator\b|$)", "", _text(member, "type")).strip() if kind == "function" else _text(member, "type")
    if kind == "function":
        arguments = re.sub(r"\s*=\s*(0|default|delete)$", "", _text(member, "argsstring"))
        return f"{template}{kind_of} {name}{arguments}".strip()
    if kind == "typedef":
        return f"{template}{name} = {kind_of}"
    if kind == "enum":
        return name
    value = _text(member, "initializer")
    return f"{kind_of} {name}{_text(member, 'argsstring')}" + (f" {value}" if value and len(value) < 60 and "[" not in value else "")


def _entry(member, indent="", scope=""):
    lines = [f"{indent}.. cpp:{DIRECTIVES[member.get('kind')]}:: {_signature(member, scope)}", ""]
    lines += _described(member, indent + "   ")
    for value in member.findall("enumvalue"):
        lines += [f"{indent}   .. cpp:enumerator:: {_text(value, 'name')}", "", *_described(value, indent + "      ")]
    return lines


def _type(compound, known, indent=""):
    name = _text(compound, "compoundname")
    lines = [f"{indent}.. cpp:{DIRECTIVES[compound.get('kind')]}:: {name if not indent else name.rpartition('::')[2]}", ""]
    lines += _described(compound, indent + "   ")
    members = [(int(m.find("location").get("line")), _entry(m, indent + "   ")) for m in compound.iter("memberdef") if _shown(m)]
    inner = [known[ref.get("refid")] for ref in compound.findall("innerclass") if ref.get("refid") in known and ref.get("prot") == "public"]
    members += [(int(c.find("location").get("line")), _type(c, known, indent + "   ")) for c in inner]
    return lines + [line for _, entry in sorted(members, key=lambda entry: entry[0]) for line in entry]


def _shown(member):
    return member.get("kind") in DIRECTIVES and member.get("prot") != "private" and not _text(member, "name").startswith(("@", "~"))


def _opening(path):
    """The comment that a header opens with, which says what the file is about."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("///"):
            break
        lines.append(line[3:].strip())
    return "\n".join(lines).split("\n\n") if lines else []


def pages(xml, root, headers, folder, about):
    """Writes a page for each module into `folder`; `headers` are paths cdt/MODULE/NAME.h below `root`, `about` says what a module is for."""
    types, entries = {}, {}
    for path in pathlib.Path(xml).glob("*.xml"):
        for compound in ElementTree.parse(path).getroot().findall("compounddef"):
            if compound.get("kind") in ("struct", "class", "union"):
                types[compound.get("id")] = compound
            elif compound.get("kind") in ("namespace", "file"):
                scope = _text(compound, "compoundname") if compound.get("kind") == "namespace" else ""
                for member in compound.iter("memberdef"):
                    if _shown(member) and (scope or member.get("id") not in entries):
                        entries[member.get("id")] = (member, scope)
    nested = {ref.get("refid") for compound in types.values() for ref in compound.findall("innerclass")}
    by_header = {}
    for key, compound in types.items():
        if key not in nested:
            by_header.setdefault(_place(compound)[0], []).append((_place(compound)[1], _type(compound, types)))
    for member, scope in entries.values():
        by_header.setdefault(_place(member)[0], []).append((_place(member)[1], _entry(member, scope=scope)))
    folder.mkdir()
    for module in sorted({header.split("/")[1] for header in headers}):
        text = [f"cdt/{module}", "=" * 40, "", about[module], ""]
        for header in headers:
            if header.split("/")[1] == module and header in by_header:
                text += [header.rpartition("/")[2], "-" * 40, "", f"``#include <{header}>``", ""]
                text += [line for part in _opening(root / header) for line in (_escape(" ".join(part.split())), "")]
                text += [line for _, entry in sorted(by_header[header], key=lambda entry: entry[0]) for line in entry]
        (folder / f"{module}.rst").write_text("\n".join(text) + "\n")


def _place(entry):
    """The file, from the repository's root, and the line."""
    location = entry.find("location")
    return "cdt/" + location.get("declfile", location.get("file")).rpartition("cdt/")[2], int(location.get("declline", location.get("line")))
