#!/usr/bin/env python3
"""Checks how other projects find the library: another LibTorch and unknown components are refused by name, and the sources work in
another project that has not found LibTorch itself. Nothing is compiled.

usage: check_package.py SOURCE PREFIX TORCH_DIR GENERATOR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

SOURCE, PREFIX, TORCH, GENERATOR = sys.argv[1:5]
HEAD = "cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES CXX)\n"
APP = "add_executable(app main.cpp)\ntarget_link_libraries(app PRIVATE {})\n"


def configure(folder, name, text, *flags):
    """The exit code and what CMake said, on one line."""
    place = folder / name
    place.mkdir()
    (place / "CMakeLists.txt").write_text(HEAD + text)
    (place / "main.cpp").write_text("int main() {}\n")
    done = subprocess.run(
        ["cmake", "-S", place, "-B", place / "build", "-G", GENERATOR, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return done.returncode, " ".join(done.stdout.split())


def expect(holds, what, said):
    if not holds:
        sys.exit(f"{what}; CMake said: {said}")


with tempfile.TemporaryDirectory() as made:
    folder = pathlib.Path(made)
    installed, torch = f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DTorch_DIR={TORCH}"

    code, said = configure(folder, "good", "find_package(cdt REQUIRED COMPONENTS data run)\n" + APP.format("cdt::run"), installed, torch)
    expect(code == 0, "the installed library is found", said)

    code, said = configure(folder, "component", "find_package(cdt REQUIRED COMPONENTS data walrus)\n", installed, torch)
    expect(code != 0 and "walrus" in said and "experiment" in said, "a component that does not exist is named, with those that do", said)
    code, said = configure(folder, "optional", "find_package(cdt REQUIRED OPTIONAL_COMPONENTS walrus)\n", installed, torch)
    expect(code == 0, "one that need not be there may be missing", said)

    fake = folder / "fake"
    fake.mkdir()
    (fake / "TorchConfig.cmake").write_text("add_library(torch INTERFACE IMPORTED)\nset(TORCH_LIBRARIES torch)\nset(TORCH_FOUND TRUE)\n")
    for version in ("2.9.0", "0.4.1"):
        (fake / "TorchConfigVersion.cmake").write_text(f"set(PACKAGE_VERSION {version})\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
        code, said = configure(folder, f"torch-{version}", "find_package(cdt REQUIRED)\n", installed, f"-DTorch_DIR={fake}")
        expect(code != 0 and version in said and "was built with LibTorch" in said, f"LibTorch {version} is refused", said)

    flags = [torch, "-DCDT_PRECOMPILED_HEADER=OFF"]
    for name, first in (("sources", ""), ("sources-and-torch", "find_package(Torch REQUIRED)\n")):
        code, said = configure(folder, name, f"{first}add_subdirectory({SOURCE} cdt)\n" + APP.format("cdt::cdt cdt::experiment"), *flags)
        expect(code == 0, "the sources can be part of another project", said)
        commands = json.loads((folder / name / "build/compile_commands.json").read_text())
        own = [each["command"] for each in commands if each["file"].endswith(f"{name}/main.cpp")]
        expect(len(own) == 1 and "torch/csrc/api/include" in own[0], "a program there finds LibTorch's headers", str(own))

print("other projects find the library, or hear why not")
