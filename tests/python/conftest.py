"""ctest says where things are; without it, `PYTHONPATH=build/python python3 -m pytest tests/python` finds them itself.

What is not there (scikit-learn, mypy, the program, …) is skipped, with its name.
"""

import os
import pathlib

import torch

import cdt

torch.set_num_threads(1)
os.environ.setdefault("CDT_SOURCE", str(pathlib.Path(__file__).resolve().parents[2]))
os.environ.setdefault("CDT_PROGRAM", str(pathlib.Path(cdt.__file__).parents[2] / "cdt"))
os.environ.setdefault("MPLBACKEND", "Agg")
