"""The kernel against Jacobians of torch.autograd.functional, which share no code with it."""

import numpy as np
import pytest
import torch
from torch import nn

import cdt
from oracle import jacobian_kernel, relative_error


def mlp(width=16, inputs=3, outputs=2):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))


def test_mlp():
    model, x = mlp(), torch.randn(7, 3)
    assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < 1e-6


def test_two_inputs():
    model, x, x2 = mlp(), torch.randn(5, 3), torch.randn(4, 3)
    whole = jacobian_kernel(model, torch.cat([x, x2]))
    assert relative_error(cdt.ntk(model, x, x2), whole[:10, 10:]) < 1e-6


def test_arrays_are_taken():
    model, x = mlp(), np.random.default_rng(0).normal(size=(4, 3))
    assert torch.equal(cdt.ntk(model, x), cdt.ntk(model, torch.tensor(x, dtype=torch.float32)))


def test_other_outputs_are_refused():
    class Pair(nn.Linear):
        def forward(self, x):
            return super().forward(x), x

    with pytest.raises(ValueError, match="must return one tensor, but returned tuple"):
        cdt.ntk(Pair(3, 1), torch.randn(2, 3))


def test_errors_of_the_model_come_out_as_themselves():
    class Broken(nn.Linear):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        cdt.ntk(Broken(3, 1), torch.randn(2, 3))
