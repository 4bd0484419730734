"""Pickles with a checksum, which detects damage. It does not protect against an attacker."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import torch
from torch import nn

# A fixed protocol, so that the same object has the same bytes.
_PROTOCOL = 4


def _digest(kind: str, content: bytes) -> str:
    return hashlib.blake2b(kind.encode() + b"\0" + content, digest_size=16).hexdigest()


def _refuse(kind: str) -> None:
    raise ValueError(f"the saved {kind} is damaged: expected bytes of another checksum; take it from where it was saved, or save it again")


class Sealed:
    """Base of classes pickled as bytes with a checksum. Pickles of earlier versions without one are accepted."""

    def __getstate__(self) -> Any:
        above = getattr(super(), "__getstate__", None)
        content = pickle.dumps(above() if above is not None else self.__dict__.copy(), protocol=_PROTOCOL)
        return _digest(type(self).__name__, content), content

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            kind = type(self).__name__
            sound = isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], bytes)
            if not sound or state[0] != _digest(kind, state[1]):
                _refuse(kind)
            state = pickle.loads(state[1])
        above = getattr(super(), "__setstate__", None)
        if above is not None:
            above(state)
        else:
            self.__dict__.update(state)


class SealedModule(nn.Module):
    """The same for modules. Tensors stay tensors in the pickle, so that torch.load can map them to another device."""

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_checksum": self._sum()}

    def __setstate__(self, state: Any) -> None:
        state = dict(state)
        expected = state.pop("_checksum", None)
        super().__setstate__(state)  # type: ignore[no-untyped-call,unused-ignore]
        if expected is not None and expected != self._sum():
            _refuse(type(self).__name__)

    def _sum(self) -> str:
        content = hashlib.blake2b(digest_size=16)
        for name, module in self.named_modules():
            plain = {key: value for key, value in vars(module).items() if isinstance(value, (bool, int, float, str, tuple, type(None)))}
            content.update(repr((name, type(module).__qualname__, sorted(plain.items(), key=lambda item: str(item[0])))).encode())
        for name, tensor in self.state_dict().items():
            content.update(repr((name, tensor.dtype, tuple(tensor.shape))).encode())
            content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return _digest(type(self).__name__, content.digest())
