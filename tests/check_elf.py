#!/usr/bin/env python3
"""Checks how binaries are hardened: tables of addresses that are read-only once all symbols are bound at the start, at any
address, without an executable stack, with guards of the stack and checked copies (cmake/CdtCompile.cmake).

usage: check_elf.py FILE…
"""
import pathlib
import struct
import sys

PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
DT_NULL, DT_BIND_NOW, DT_FLAGS, DT_FLAGS_1 = 0, 24, 30, 0x6FFFFFFB
SHT_DYNSYM = 11


def violations(path):
    data = pathlib.Path(path).read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        yield "expected an ELF file of 64 bits, little-endian"
        return
    kind, = struct.unpack_from("<H", data, 16)
    programs_at, sections_at = struct.unpack_from("<QQ", data, 32)
    program_size, programs, section_size, sections = struct.unpack_from("<HHHH", data, 54)
    if kind != 3:  # ET_DYN
        yield "loaded at a fixed address (not -pie)"
    segments = [struct.unpack_from("<IIQQQQQQ", data, programs_at + i * program_size) for i in range(programs)]
    if not any(segment[0] == PT_GNU_RELRO for segment in segments):
        yield "no RELRO (-z relro)"
    if any(segment[0] == PT_GNU_STACK and segment[1] & 1 for segment in segments):
        yield "an executable stack"
    bound = False
    for segment in segments:
        if segment[0] != PT_DYNAMIC:
            continue
        for tag, value in struct.iter_unpack("<QQ", data[segment[2] : segment[2] + segment[5] // 16 * 16]):
            if tag == DT_NULL:
                break
            bound |= tag == DT_BIND_NOW or (tag == DT_FLAGS and value & 8 > 0) or (tag == DT_FLAGS_1 and value & 1 > 0)
    if not bound:
        yield "symbols are bound when they are first used (not -z now)"
    names = set()
    tables = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * section_size) for i in range(sections)]
    for table in tables:
        if table[1] != SHT_DYNSYM:
            continue
        texts = tables[table[6]][4]
        for at in range(table[4], table[4] + table[5], 24):
            name = texts + struct.unpack_from("<I", data, at)[0]
            names.add(data[name : data.index(b"\0", name)].decode())
    if "__stack_chk_fail" not in names:
        yield "no guards of the stack (-fstack-protector-strong)"
    if not any(name.endswith("_chk") for name in names):
        yield "no checked copies (-D_FORTIFY_SOURCE)"


if __name__ == "__main__":
    found = [f"{path}: {what}" for path in sys.argv[1:] for what in violations(path)]
    print("\n".join(found) if found else "hardened")
    sys.exit(1 if found or len(sys.argv) < 2 else 0)
