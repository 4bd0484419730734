"""Rows of the Jacobian of residuals that belong to no samples: products with many vectors at once, over all of the residual."""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence

import torch

# Vectors of one batched product: beyond some dozens the work is the same, the memory is not.
_BLOCK = 256


def jacobian_rows(memory: int) -> Callable[[torch.Tensor, Sequence[torch.Tensor]], torch.Tensor]:
    """A function from residuals, with their graph, and parameters to J [n, P], within `memory` bytes."""

    def rows(residuals: torch.Tensor, parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        size, count = residuals.numel(), sum(p.numel() for p in parameters)
        # J itself, in float64 too where Gram products want it
        wanted = size * count * (residuals.element_size() + 8)
        if wanted > memory:
            raise ValueError(
                f"the Jacobian of {size} residuals in {count} parameters takes {wanted >> 20} MiB, more than memory={memory >> 20} MiB: "
                "fewer residuals a step (draw some of the points), a smaller network, or more memory"
            )
        jacobian = residuals.new_zeros(size, count)
        block = min(size, _BLOCK)
        for start in range(0, size, block):
            seeds = residuals.new_zeros(min(block, size - start), size)
            seeds.diagonal(start).fill_(1)
            parts = _batched(residuals, parameters, seeds)
            at = 0
            for parameter, part in zip(parameters, parts):
                if part is not None:
                    jacobian[start : start + len(seeds), at : at + parameter.numel()] = part.reshape(len(seeds), -1)
                at += parameter.numel()
        return jacobian

    return rows


def _batched(residuals: torch.Tensor, parameters: Sequence[torch.Tensor], seeds: torch.Tensor) -> List[Optional[torch.Tensor]]:
    """Seedᵀ·J for each seed, by parameter; None where the residuals do not depend on it."""
    shaped = seeds.reshape(len(seeds), *residuals.shape)
    try:
        return list(torch.autograd.grad(residuals, parameters, shaped, retain_graph=True, allow_unused=True, is_grads_batched=True))
    except RuntimeError:  # an operator without a batched backward pass: one vector after another
        each = [torch.autograd.grad(residuals, parameters, seed, retain_graph=True, allow_unused=True) for seed in shaped]
        return [None if parts[0] is None else torch.stack([part.to_dense() if part.is_sparse else part for part in parts]) for parts in zip(*each)]
