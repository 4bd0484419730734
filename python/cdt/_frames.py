"""Arrays and frames as tables of the library: columns of numbers or text, with missing values."""

from __future__ import annotations

import math
import numbers
import os
from typing import Any, Iterable, List, Mapping, Optional, Sequence

import numpy as np

from . import _core


def is_frame(X: Any) -> bool:
    """Whether it has named columns, as pandas' frames have."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "iloc")


def threads_of(n_jobs: Optional[int]) -> int:
    """How many threads to use: as many as asked for; else as OMP_NUM_THREADS says, else all cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        named = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        return int(named) if named.isdigit() and int(named) > 0 else cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, or None, but came {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def names_of(X: Any) -> List[str]:
    """A name for each column: those of a frame, else x0, x1, …"""
    if not is_frame(X):
        return [f"x{i}" for i in range(X.shape[1])]
    names = [str(name) for name in X.columns]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"X: expected columns whose names differ, but came {twice!r} twice")
    return names


def column_of(X: Any, i: int) -> Any:
    return X.iloc[:, i] if is_frame(X) else X[:, i]


def _is_missing(value: Any) -> bool:
    """None, NaN, NaT and pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and math.isnan(float(value))


def _text_of(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)) or isinstance(value, numbers.Integral):
        return str(value)
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise TypeError(f"{where}: argument must be a string or a number, not {type(value).__name__!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Real, np.bool_))


def _numbers(values: Iterable[Any], where: str) -> "np.ndarray[Any, Any]":
    """Numbers, or texts of numbers; what is missing is NaN."""
    out: List[float] = []
    for row, value in enumerate(values):
        if _is_missing(value):
            out.append(math.nan)
            continue
        try:
            out.append(float(value))
        except (TypeError, ValueError):
            raise ValueError(f"{where}, row {row}: expected a number, as when the model was trained, but came {value!r}") from None
    return np.asarray(out, dtype=np.float64)


def _add_texts(table: _core.Table, name: str, values: Sequence[Any], where: str) -> None:
    texts = [None if _is_missing(value) else _text_of(value, where) for value in values]
    categories = sorted({text for text in texts if text is not None})
    code = {text: i for i, text in enumerate(categories)}
    table.add_texts(name, np.asarray([-1 if text is None else code[text] for text in texts], dtype=np.int32), categories)


def _is_categorical(column: Any) -> bool:
    return hasattr(column, "cat") and hasattr(column.dtype, "categories")


def add_column(table: _core.Table, name: str, column: Any, text: Optional[bool] = None, where: str = "X") -> None:
    """Adds a column of an array or a frame; `text` says what it was in training, None lets its content decide."""
    where = f"{where}, column {name!r}"
    dtype = getattr(column, "dtype", None)
    if _is_categorical(column):
        column = column.astype(object)  # its values are names, also where they are numbers
        text = True if text is None else text
    kind = getattr(dtype, "kind", "O")
    if not isinstance(dtype, np.dtype) and kind in "biuf" and not _is_categorical(column):
        # pandas' own columns with missing values
        column, dtype = column.to_numpy(dtype=np.float64, na_value=np.nan), np.dtype(np.float64)
    values = np.asarray(column)
    if values.dtype.kind == "m":
        values = values / np.timedelta64(1, "D")  # durations, in days
    if values.dtype.kind in "biuf":
        if text:
            _add_texts(table, name, values.tolist(), where)
            return
        numbers_ = values.astype(np.float64)
        if np.isinf(numbers_).any():
            raise ValueError(f"Input X contains infinity or a value too large for {values.dtype!r} ({where})")
        table.add_numbers(name, numbers_)
        return
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported ({where})")
    if values.dtype.kind == "M":  # dates: the library knows them by their text
        table_values: Sequence[Any] = [None if np.isnat(value) else str(value.astype("datetime64[s]")) for value in values]
    else:
        table_values = values.tolist()
    if text is None:
        text = not all(_is_missing(value) or _is_number(value) for value in table_values)
    if text:
        _add_texts(table, name, table_values, where)
    else:
        found = _numbers(table_values, where)
        if np.isinf(found).any():
            raise ValueError(f"Input X contains infinity or a value too large for float64 ({where})")
        table.add_numbers(name, found)


def table_of(X: Any, names: Sequence[str], texts: Mapping[str, bool], source: str = "X") -> _core.Table:
    """The columns of X, in their order, under these names; of those that `texts` knows, with the types that it says."""
    table = _core.Table(source, X.shape[0])
    for i, name in enumerate(names):
        add_column(table, name, column_of(X, i), texts.get(name), source)
    return table
