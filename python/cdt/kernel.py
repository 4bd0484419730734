"""Neural tangent kernels of PyTorch models, and products with their derivatives."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np
import torch

from . import _core
from ._model import Params, Vector, as_kept_model, as_model, as_tensor, bytes_of, flat, number, require_movable, require_same_parameters, whole


def ntk(
    model: Any,
    x: Any,
    x2: Any = None,
    *,
    params: Optional[Params] = None,
    memory: Optional[int] = None,
    accumulate: torch.dtype = torch.float64,
    repeatable: Optional[bool] = None,
) -> torch.Tensor:
    """The empirical neural tangent kernel J Jᵀ, [n, n], or between the samples x and x2, [n, n2].

    Rows are stacked sample by sample: entry (i·c + a, j·c + b) belongs to output a of sample i and output b of sample j, with
    c outputs per sample.

    model       any torch.nn.Module, or a function (params, x) -> y
    params      parameters of a function, as a list or a dict by name; for a module, which parameters to use (default: all that
                require gradients)
    memory      bytes to use beyond the kernel itself (default: 2 GiB); samples are processed in blocks that fit
    accumulate  dtype of the kernel and of its sums
    repeatable  whether repeated kernels of one shape of a module on a GPU are replayed, several times faster for small ones.
                None: yes, and each time the module is called and differentiated once to check that it still computes the same;
                if not, the kernel is recomputed. True: yes, without calling the module; you promise that it always runs the
                same operators on the same tensors and that only values of its parameters change. False: no, and no GPU memory
                is kept

    Layers must treat samples independently: batch norm and dropout in training mode raise ValueError; call model.eval() first.
    Each kernel is checked against autograd; one that fails is never returned.

    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> theta = ntk(model, torch.randn(4, 2))
    >>> theta.shape, theta.dtype
    (torch.Size([4, 4]), torch.float64)
    >>> w = torch.ones(2, requires_grad=True)
    >>> ntk(lambda params, x: x @ params["w"], torch.eye(2), params={"w": w})
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    made = as_kept_model(model, params)
    other = None if x2 is None else as_tensor(x2, made, "x2")
    return _core.ntk(made, as_tensor(x, made), other, bytes_of(memory), accumulate, None if repeatable is None else bool(repeatable)).theta


class NTK:
    """The kernel as a linear operator: products with vectors, without the matrix.

    Neither the parameters nor x may change while it is in use.

    >>> _ = torch.manual_seed(0)
    >>> model, x = torch.nn.Linear(3, 2), torch.randn(50, 3)
    >>> theta = NTK(model, x)
    >>> theta.shape
    (100, 100)
    >>> (theta @ torch.ones(100)).shape
    torch.Size([100])
    >>> values, vectors = theta.eigsh(3)
    >>> bool(values[-1] > values[0]), vectors.shape
    (True, torch.Size([100, 3]))
    """

    def __init__(self, model: Any, x: Any, *, params: Optional[Params] = None, memory: Optional[int] = None) -> None:
        self._model = made = as_model(model, params)
        self._operator = _core.NtkOperator(made, as_tensor(x, made), bytes_of(memory))
        self._dtype = made.parameters[0].dtype

    @property
    def shape(self) -> Tuple[int, int]:
        """(n, n), n the number of samples times that of outputs per sample."""
        return (self._operator.size, self._operator.size)

    @property
    def outputs(self) -> torch.Tensor:
        """The model's outputs for x, [samples, outputs per sample]."""
        return self._operator.outputs

    def __matmul__(self, other: Any) -> Any:
        """The product with a vector [n] or a matrix [n, k], in its dtype; an array gives an array."""
        self._require_same()
        if not isinstance(other, torch.Tensor):
            array = np.asarray(other)
            vector = torch.from_numpy(np.array(array, dtype=np.complex128 if np.iscomplexobj(array) else np.float64))
            return self._product(vector.to(self.outputs.device)).cpu().numpy()
        return self._product(other.detach())

    def _product(self, V: torch.Tensor) -> torch.Tensor:
        if V.is_complex():
            return torch.complex(self._operator.apply(V.real.contiguous()), self._operator.apply(V.imag.contiguous()))
        return self._operator.apply(V)

    def _require_same(self) -> None:
        require_same_parameters(self._model, "the operator was made", "Make the operator anew")

    def trace(self) -> float:
        """The sum of all eigenvalues."""
        self._require_same()
        return self._operator.trace()

    def eigsh(self, m: int, *, tol: float = 1e-10, seed: int = 0) -> Tuple[torch.Tensor, torch.Tensor]:
        """The m largest eigenvalues, ascending as in SciPy, and their vectors [n, m], by block Lanczos on products only."""
        self._require_same()
        found = self._operator.leading_modes(whole(m, "m"), number(tol, "tol"), whole(seed, "seed"))
        if not found.converged:
            raise RuntimeError(f"the {m} largest eigenvalues were not found to {tol:g} after {found.products} products; a larger tol will do, or fewer of them")
        return found.values, found.vectors

    def to_scipy(self) -> Any:
        """Converts to a scipy.sparse.linalg.LinearOperator in float64."""
        from scipy.sparse.linalg import LinearOperator  # type: ignore[import-untyped,unused-ignore]

        return LinearOperator(self.shape, matvec=lambda v: self @ v.reshape(-1), matmat=self.__matmul__, rmatvec=lambda v: self @ v.reshape(-1), dtype=np.float64)

    def __repr__(self) -> str:
        return f"cdt.NTK of shape {self.shape}"


def jvp(model: Any, x: Any, u: Vector, *, params: Optional[Params] = None) -> torch.Tensor:
    """J u [n]: the derivative of the outputs along u.

    u is a vector [P] in the order of the trainable parameters, or tensors shaped like them, as a list or a dict by name.

    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> jvp(model, torch.eye(2), [torch.tensor([[3.0, 4.0]])])
    tensor([3., 4.])
    """
    made = as_model(model, params)
    return _core.jvp(made, as_tensor(x, made), flat(u, made, "u"))


def vjp(model: Any, x: Any, v: Any, *, params: Optional[Params] = None) -> torch.Tensor:
    """Jᵀ v [P]: the gradient of v·y with respect to the trainable parameters, as one vector. v has n entries, in any shape.

    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> vjp(model, torch.eye(2), torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    made = as_model(model, params)
    seed = as_tensor(v, made, "v").detach().reshape(-1)
    return _core.vjp(made, as_tensor(x, made), seed)


class Linearization:
    """A model's first-order expansion y₀ + J₀(θ − θ₀) at its parameters θ₀ at construction. Its kernel and products remain
    those of θ₀ when the parameters change; x must not change.

    Parameter vectors are [P], in the order of the trainable parameters, or blocks [P, k]; output vectors are [n], sample by
    sample, or blocks [n, k]. They have the model's dtype or float64; products have the same.
    """

    def __init__(self, model: Any, x: Any, *, params: Optional[Params] = None, memory: Optional[int] = None) -> None:
        self._model = as_model(model, params)
        require_movable(self._model)
        samples = as_tensor(x, self._model)
        self._local = _core.LocalModel(self._model, samples)
        self._network = _core.Linearization(self._model, samples, bytes_of(memory))

    @property
    def outputs(self) -> torch.Tensor:
        """y₀ [n], float64."""
        return self._local.outputs

    def push_forward(self, U: Any) -> torch.Tensor:
        """J₀U: the derivative of the outputs along U, which may also be tensors shaped like the parameters (list or dict by name)."""
        self._require_same()
        block = isinstance(U, (torch.Tensor, np.ndarray)) and U.ndim == 2
        return self._network.push_forward(as_tensor(U, self._model, "U").detach() if block else flat(U, self._model, "U"))

    def pull_back(self, V: Any) -> torch.Tensor:
        """J₀ᵀV: the gradient of V·y with respect to the parameters."""
        self._require_same()
        return self._network.pull_back(as_tensor(V, self._model, "V").detach())

    def kernel(self) -> torch.Tensor:
        """J₀J₀ᵀ [n, n], float64, as from cdt.ntk; not cached."""
        self._require_same()
        return self._network.kernel()

    def gram(self, S: Any = None) -> torch.Tensor:
        """J₀ᵀSSᵀJ₀ [P, P], float64. S [samples, c, k] has a block [c, k] per sample; None: J₀ᵀJ₀."""
        self._require_same()
        return self._network.gram(None if S is None else torch.as_tensor(S, dtype=torch.float64, device=self._model.parameters[0].device))

    def trace(self) -> float:
        """The sum of all eigenvalues of the kernel, and of the Gram matrix J₀ᵀJ₀."""
        self._require_same()
        return self._network.trace()

    def displacement(self) -> torch.Tensor:
        """θ − θ₀ [P] at the current parameters."""
        self._require_same()
        return self._local.displacement()

    def __call__(self, displacement: Optional[Vector] = None) -> torch.Tensor:
        """Its prediction [n], float64, at the current parameters, or for another displacement."""
        self._require_same()
        if displacement is None:
            return self._local.predict(self._local.displacement())
        return self._local.predict(flat(displacement, self._model, "displacement"))

    def error(self) -> float:
        """The linearization error ‖y − (y₀ + J₀(θ − θ₀))‖ at the current parameters."""
        self._require_same()
        return self._local.error()

    def _require_same(self) -> None:
        require_same_parameters(self._model, "the linearization was made", "Make it anew")
        require_movable(self._model)


def linearize(model: Any, x: Any, *, params: Optional[Params] = None, memory: Optional[int] = None) -> Linearization:
    """Linearizes the model at its current parameters: y₀ and J₀, with the kernel and all products.

    memory   bytes for kernels, Gram matrices and products beyond their own size (default: 2 GiB)

    >>> _ = torch.manual_seed(0)
    >>> model, x = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)), torch.randn(4, 2)
    >>> local = linearize(model, x)
    >>> with torch.no_grad():
    ...     _ = model[0].weight.add_(0.001)
    >>> local.error() < 1e-5
    True
    >>> v = torch.randn(4, dtype=torch.float64)
    >>> torch.allclose(local.kernel() @ v, local.push_forward(local.pull_back(v)))
    True
    >>> local.gram().shape, bool(abs(local.trace() - local.kernel().trace()) < 1e-5)
    (torch.Size([33, 33]), True)
    """
    return Linearization(model, x, params=params, memory=memory)
