from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

class Model:
    def __init__(self, forward: Callable[[Tensor], Tensor], parameters: Sequence[Tensor]) -> None: ...
    @property
    def parameters(self) -> List[Tensor]: ...
    @property
    def parameter_count(self) -> int: ...

class Ntk:
    theta: Tensor
    outputs: Tensor
    self_check: float
    def brief_report(self) -> str: ...

class NtkOperator:
    def __init__(self, model: Model, x: Tensor, memory: Optional[int]) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def outputs(self) -> Tensor: ...
    def apply(self, V: Tensor) -> Tensor: ...
    def trace(self) -> float: ...
    def leading_modes(self, modes: int, tolerance: float, seed: int) -> LeadingModes: ...

class LeadingModes:
    values: Tensor
    vectors: Tensor
    tail_bound: float
    converged: bool
    products: int

class LocalModel:
    def __init__(self, model: Model, x: Tensor) -> None: ...
    @property
    def outputs(self) -> Tensor: ...
    def displacement(self) -> Tensor: ...
    def predict(self, displacement: Tensor) -> Tensor: ...
    def error(self) -> float: ...

class RiccatiSolution:
    P: Tensor
    K: Tensor
    relative_residual: float
    closed_loop_radius: float
    iterations: int
    equilibrium: Optional[Tensor]
    def optimal_cost(self, x: Any) -> float: ...

class Analysis:
    text: str
    json: str
    eigenvalues: Tensor

class ModelController:
    def __init__(
        self,
        model: Model,
        x: Tensor,
        y: Tensor,
        loss: str,
        lr: float,
        p: float,
        q: float,
        Q: Optional[Tensor],
        R: Optional[Tensor],
        smoothing: Optional[float],
        refresh_above: Optional[float],
        memory: Optional[int],
    ) -> None: ...
    def augment(self, y_hat: Tensor) -> Tensor: ...
    def refresh(self) -> None: ...
    def set_lr(self, lr: float) -> None: ...
    @property
    def lr(self) -> float: ...
    @property
    def drift(self) -> Optional[float]: ...
    @property
    def warning(self) -> str: ...
    @property
    def refreshes(self) -> int: ...
    @property
    def gain(self) -> Tensor: ...
    @property
    def kernel(self) -> Tensor: ...
    @property
    def closed_loop_radius(self) -> float: ...
    @property
    def certificate(self) -> Dict[str, float]: ...

class Forecast:
    candidates: List[Dict[str, Any]]
    steps: List[int]
    train_loss: Tensor
    val_loss: Tensor
    best: Dict[str, Any]
    best_descent: Optional[Dict[str, Any]]
    best_controlled: Optional[Dict[str, Any]]

class TrainOptions:
    method: str
    loss: str
    schedule: str
    relinearize: Optional[str]
    decay: float
    period: int
    lr: Optional[float]
    p: float
    q: float
    shape: float
    smoothing: Optional[float]
    weight_decay: float
    batch_size: int
    reshuffle: bool
    seed: int
    steps: int
    stop_loss: float
    patience: int
    plateau: int
    max_seconds: float
    validate_every: int
    linearization_error: bool
    memory: int
    def __init__(self) -> None: ...
    def require_valid(self) -> None: ...

class TrainResult:
    outcome: str
    steps: int
    train_loss: float
    val_loss: float
    best_step: int
    best_val_loss: float
    linearizations: int
    rejected: int
    learning_rate: float
    seconds: float
    history: List[Dict[str, Any]]
    def in_words(self) -> str: ...

class Trainer:
    def __init__(
        self,
        model: Model,
        x: Tensor,
        y: Tensor,
        x_val: Optional[Tensor],
        y_val: Optional[Tensor],
        sample_weight: Optional[Tensor],
        output_weight: Optional[Tensor],
        options: TrainOptions,
        rows: Optional[Callable[[Tensor, Sequence[Tensor]], Tensor]],
    ) -> None: ...
    def step(self) -> Tuple[Dict[str, Any], Optional[str]]: ...
    def look_again(self) -> None: ...
    def run(self, on_step: Optional[Callable[[Dict[str, Any]], Any]], stop: bool) -> TrainResult: ...
    def checkpoint(self) -> Tuple[Dict[str, Tensor], Dict[str, str]]: ...
    def restore(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None: ...

class Table:
    def __init__(self, source: str, rows: int) -> None: ...
    def add_numbers(self, name: str, numbers: "np.ndarray[Any, Any]") -> None: ...
    def add_texts(self, name: str, codes: "np.ndarray[Any, Any]", categories: Sequence[str]) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def names(self) -> List[str]: ...
    def pictures(self) -> Tensor: ...

def picture_table(path: str, shape: Sequence[int]) -> Table: ...
def tensor_table(x: Tensor) -> Table: ...

class Trained:
    def encode(self, table: Table, threads: int) -> Tensor: ...
    def predict(self, table: Table, threads: int) -> Tensor: ...
    def bounds(self, table: Table, coverage: float, threads: int) -> Tuple[Tensor, Tensor]: ...
    def deviations(self, table: Table, threads: int) -> Tensor: ...
    def unknown(self, table: Table) -> List[Tuple[str, int, str, str]]: ...
    def members(self) -> List[Any]: ...
    def targets(self) -> List[Dict[str, Any]]: ...
    @property
    def columns(self) -> List[Tuple[str, bool]]: ...
    @property
    def classes(self) -> List[str]: ...
    @property
    def has_intervals(self) -> bool: ...
    @property
    def squares(self) -> bool: ...
    @property
    def pictures(self) -> Optional[Dict[str, Any]]: ...
    @property
    def temperature(self) -> float: ...
    @property
    def notes(self) -> List[str]: ...
    @property
    def features(self) -> List[str]: ...
    @property
    def dtype(self) -> torch.dtype: ...

def learn(
    table: Table, settings: Sequence[Tuple[str, List[str]]], threads: int, progress: Optional[Callable[[bool, int, int, float], None]]
) -> Dict[str, Any]: ...
def load_run(path: str) -> Trained: ...
def ntk(model: Model, x: Tensor, x2: Optional[Tensor], memory: Optional[int], accumulate: torch.dtype, repeatable: Optional[bool]) -> Ntk: ...
def vjp(model: Model, x: Tensor, v: Tensor) -> Tensor: ...
def jvp(model: Model, x: Tensor, u: Tensor) -> Tensor: ...
def dare(A: Tensor, B: Tensor, Q: Tensor, R: Tensor, augmented: bool) -> RiccatiSolution: ...
def analyze(
    model: Model,
    x: Tensor,
    y: Tensor,
    x_val: Optional[Tensor],
    y_val: Optional[Tensor],
    loss: str,
    lr: Optional[float],
    p: float,
    q: float,
    trial_steps: int,
    smoothing: Optional[float],
    memory: Optional[int],
) -> Analysis: ...
def analyze_kernel(
    theta: Tensor, y: Optional[Tensor], outputs: Optional[Tensor], loss: str, lr: Optional[float], p: float, q: float, single: bool
) -> Analysis: ...
def forecast(
    model: Model,
    x: Tensor,
    y: Tensor,
    x_val: Tensor,
    y_val: Tensor,
    loss: str,
    lr: List[float],
    p: List[float],
    q: float,
    steps: List[int],
    decay: float,
    memory: Optional[int],
) -> Forecast: ...
def method_names() -> List[str]: ...
def checksum(tensor: Tensor) -> str: ...
