"""Converts arrays and data frames to tables of the library: columns of numbers or text, with missing values."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from functools import partial
from typing import Any, Callable, List, Mapping, Optional, Sequence

import numpy as np

from . import _core


# float64 represents all integers up to here.
_HELD = 2**53
# Converts texts of a column to numbers, NaN for a text that is not a number.
Parse = Callable[[List[str]], List[float]]


def is_frame(X: Any) -> bool:
    """Whether X has named columns, as pandas data frames do."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "iloc")


def threads_of(n_jobs: Optional[int]) -> int:
    """Number of threads: n_jobs if given, else OMP_NUM_THREADS, else all cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        named = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        return int(named) if named.isdigit() and int(named) > 0 else cores
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a whole number other than 0, or None, got {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def names_of(X: Any) -> List[str]:
    """Column names: those of a frame, else x0, x1, …"""
    if not is_frame(X):
        return [f"x{i}" for i in range(X.shape[1])]
    names = [str(name) for name in X.columns]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"X: expected columns whose names differ, got {twice!r} twice")
    return names


def column_of(X: Any, i: int) -> Any:
    return X.iloc[:, i] if is_frame(X) else X[:, i]


def place_of(name: str, names: Sequence[str], source: str) -> int:
    """The index of a column by name."""
    if name not in names:
        raise ValueError(f"{source}: expected a column {name!r}, but the columns are {_core.list_nearest(list(names), name)}")
    return names.index(name)


def _is_missing(value: Any) -> bool:
    """Whether the value is None, NaN, NaT or pandas' NA."""
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


def _are_one_as_floats(values: Sequence[Any]) -> bool:
    """Whether distinct integers become equal in float64."""
    whole = {int(value) for value in values if isinstance(value, numbers.Integral) and abs(int(value)) > _HELD}
    return len(whole) > len({float(value) for value in whole})


def warn_of_rounding(values: Sequence[Any], where: str) -> None:
    rounded = [value for value in values if isinstance(value, numbers.Integral) and abs(int(value)) > _HELD and int(float(value)) != int(value)]
    if rounded:
        warnings.warn(f"{where}: {len(rounded)} whole numbers beyond 2**53, {rounded[0]} first, are rounded to about 16 digits; as text they keep all", stacklevel=6)


def _numbers(values: Sequence[Any], where: str, parse: Optional[Parse]) -> "np.ndarray[Any, Any]":
    """Converts numbers, or texts of numbers; missing values become NaN."""
    texts = sorted({value for value in values if isinstance(value, str)}) if parse else []
    known = dict(zip(texts, parse(texts))) if parse else {}
    out: List[float] = []
    for row, value in enumerate(values):
        if _is_missing(value):
            out.append(math.nan)
            continue
        try:
            number = known[value] if isinstance(value, str) and parse else float(value)
            if math.isnan(number):
                raise ValueError(value)
            out.append(number)
        except (TypeError, ValueError):
            raise ValueError(f"{where}, row {row}: expected a number, as when the model was trained, got {value!r}") from None
    return np.asarray(out, dtype=np.float64)


def _add_texts(table: _core.Table, name: str, values: Sequence[Any], where: str, decide: bool = False) -> None:
    texts = [None if _is_missing(value) else _text_of(value, where) for value in values]
    categories = sorted({text for text in texts if text is not None})
    code = {text: i for i, text in enumerate(categories)}
    table.add_texts(name, np.asarray([-1 if text is None else code[text] for text in texts], dtype=np.int32), categories, decide)


def _is_categorical(column: Any) -> bool:
    return hasattr(column, "cat") and hasattr(column.dtype, "categories")


def add_column(table: _core.Table, name: str, column: Any, text: Optional[bool] = None, where: str = "X", parse: Optional[Parse] = None) -> None:
    """Adds a column of an array or frame. `text`: whether it was text in training; None: decided by its content. `parse` converts texts to numbers."""
    decide = text is None and not _is_categorical(column)
    where = f"{where}, column {name!r}"
    dtype = getattr(column, "dtype", None)
    if _is_categorical(column):
        column = column.astype(object)  # categories are names, even if they are numbers
        text = True if text is None else text
    kind = getattr(dtype, "kind", "O")
    if not isinstance(dtype, np.dtype) and kind in "biuf" and not _is_categorical(column):
        # pandas extension types with missing values
        as_floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
        exact = kind in "iu" and bool((np.abs(as_floats) >= _HELD).any())
        column = column.to_numpy(dtype=object, na_value=None) if exact else as_floats
    values = np.asarray(column)
    if values.dtype.kind == "m":
        values = values / np.timedelta64(1, "D")  # durations, in days
    if values.dtype.kind in "biuf":
        if text:
            _add_texts(table, name, values.tolist(), where)
            return
        if values.dtype.kind in "iu" and values.size and (values.max() > _HELD or values.min() < -_HELD):
            if decide and _are_one_as_floats(values.tolist()):
                _add_texts(table, name, values.tolist(), where)
                return
            warn_of_rounding(values.tolist(), where)
        numbers_ = values.astype(np.float64)
        if np.isinf(numbers_).any():
            raise ValueError(f"Input X contains infinity or a value too large for {values.dtype!r} ({where})")
        table.add_numbers(name, numbers_)
        return
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported ({where})")
    if values.dtype.kind == "M":  # dates: passed as text
        table_values: Sequence[Any] = [None if np.isnat(value) else str(value.astype("datetime64[s]")) for value in values]
    else:
        table_values = values.tolist()
    if text is None:
        text = not all(_is_missing(value) or _is_number(value) for value in table_values) or _are_one_as_floats(table_values)
    if text:
        _add_texts(table, name, table_values, where, decide)
    else:
        warn_of_rounding(table_values, where)
        found = _numbers(table_values, where, parse)
        if np.isinf(found).any():
            raise ValueError(f"Input X contains infinity or a value too large for float64 ({where})")
        table.add_numbers(name, found)


def table_of(X: Any, names: Sequence[str], texts: Mapping[str, bool], source: str = "X") -> _core.Table:
    """A table with the columns of X, in order, under these names; `texts` gives the type of some columns."""
    table = _core.Table(source, X.shape[0])
    for i, name in enumerate(names):
        add_column(table, name, column_of(X, i), texts.get(name), source)
    return table


def known_columns(trained: _core.Trained, X: Any, names: Sequence[str], source: str, unknown: str) -> _core.Table:
    """The columns that a model uses, by name; unknown values raise a warning, or an error if unknown="refuse"."""
    if unknown not in ("warn", "refuse"):
        raise ValueError(f'unknown must be "warn" or "refuse", got {unknown!r}')
    table = _core.Table(source, X.shape[0])
    for name, text in trained.columns:
        add_column(table, name, column_of(X, place_of(name, names, source)), text, source, partial(trained.numbers, name))
    for _column, _rows, words in trained.unknown(table):
        if unknown == "refuse":
            raise ValueError(f'{source}: {words} (refused, as unknown="refuse" says)')
        warnings.warn(f"{source}: {words}", stacklevel=5)
    return table
