"""Ctrl-C: seen within a second, and nothing is left recording.

Each case is a child process, which sends the signal to itself and judges by its own processor time: on a busy machine the wall clock tells of others. Work that
nobody wants any more may go on beside it for a while, and would count in another case's time.
"""

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

import cdt
from oracle import jacobian_kernel, relative_error


def network(inputs=20, width=64, outputs=2):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs))


def samples(count, inputs=20, outputs=2):
    torch.manual_seed(2)
    return torch.randn(count, inputs), torch.randn(count, outputs)


def kernel_in_blocks():
    model, (x, _) = network(width=500), samples(3000)
    cdt.ntk(model, x, memory=64 << 20)


def kernel_in_one_block():
    model, (x, _) = network(width=500), samples(3000)
    cdt.ntk(model, x)


def wide_kernel():
    """Few pairs of samples, each long."""
    model, (x, _) = nn.Sequential(nn.Linear(20, 5000), nn.ReLU(), nn.Linear(5000, 1)), samples(4000)
    cdt.ntk(model, x)


def kernel_of_pictures():
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 28 * 28, 10))
    cdt.ntk(model, torch.randn(40, 3, 32, 32))


def kernel_by_rows():
    """A layer without a rule: a pass for each output."""

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.w = network(), nn.Parameter(torch.randn(64, 20))

        def forward(self, x):
            return self.inner(x) + torch.cdist(x.unsqueeze(1), self.w.unsqueeze(0)).flatten(1)[:, :2]

    cdt.ntk(Odd(), samples(20000)[0][:, :20], samples(5)[0])


def many_products():
    cdt.NTK(network(), samples(400)[0]).eigsh(600, tol=1e-300)  # no end in sight


def wide_products():
    model, (x, _) = network(width=500), samples(3000)
    theta = cdt.NTK(model, x)
    while True:
        theta @ torch.ones(6000, 200)


def trained(**settings):
    model, (x, y) = network(), samples(400)
    result = cdt.fit(model, x, y, steps=10**6, progress=False, **settings)
    assert result.outcome == "interrupted" and list(result.history["step"]) == list(range(result.steps))
    assert all(torch.isfinite(p).all() for p in model.parameters())
    if "batch_size" not in settings:  # the module has the last step that was kept
        after = torch.nn.functional.mse_loss(model(x), y).item()
        assert after == pytest.approx(result.train_loss, rel=1e-5)
    raise KeyboardInterrupt  # fit ends by itself, in order


def large_fit():
    """Most of it is one kernel."""
    model, (x, y) = network(width=500), samples(1500)
    cdt.fit(model, x, y, progress=False, stop_loss=1e-300)
    raise KeyboardInterrupt


def plain_fit():
    trained(method="gd", lr=1e-4)


def guarded_fit():
    trained(stop_loss=1e-300, plateau=10**6)


def batches_fit():
    trained(batch_size=50, stop_loss=1e-300)


def predict_fit():
    trained(goal="predict", x_val=samples(1000)[0], y_val=samples(1000)[1], patience=0)


def guarded_steps():
    model, (x, y) = network(), samples(600)
    opt = cdt.optim.Guarded(model)
    opt.step(x, y)  # long enough, or the loop is what is interrupted: then between two steps
    while True:
        opt.step(x, y)


def estimator():
    X = np.random.default_rng(0).normal(size=(4000, 10))
    cdt.CDTRegressor(n_jobs=1, random_state=1).fit(X, np.sin(X[:, 0]) * X[:, 1])


def classifier():
    X = np.random.default_rng(0).normal(size=(3000, 10))
    cdt.CDTClassifier(n_jobs=1, random_state=1).fit(X, X[:, 0] * X[:, 1] > 0)


def one_decomposition():
    """A single call of LAPACK that takes seconds, behind analyze, Controller and dare alike."""
    cdt.analyze(torch.diag(torch.linspace(1, 2, 2400, dtype=torch.float64)) + 1e-3, lr=1e-6)


def one_design():
    x, y = samples(1200)
    cdt.Controller(network(), x, y, lr=0.1)


def one_riccati():
    one = torch.eye(900, dtype=torch.float64)
    cdt.dare(torch.randn(900, 900, dtype=torch.float64) / 50, one, one, one)


def _child(work, pipe):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    begun = time.process_time()
    sent = []

    def interrupt():
        while time.process_time() - begun < 0.25:  # processor time: the work is under way
            time.sleep(0.005)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    try:
        thread.start()
        work()
        outcome = "ended"
    except KeyboardInterrupt:
        outcome = "interrupted"
    except BaseException as error:
        outcome = repr(error)
    late = time.process_time() - sent[0] if sent else None
    # A recorder that was left would meet dropout here, and call the model's own passes its own.
    small, x = network(width=8), torch.randn(4, 20)
    nn.Sequential(nn.Linear(20, 4), nn.Dropout())(x).sum().backward()
    gap = relative_error(cdt.ntk(small, x), jacobian_kernel(small, x))
    pipe.send((outcome, late, gap, torch.is_grad_enabled()))


WORK = [
    kernel_in_blocks, kernel_in_one_block, wide_kernel, kernel_of_pictures, kernel_by_rows, many_products, wide_products, large_fit, plain_fit, guarded_fit, batches_fit, predict_fit, guarded_steps, estimator, classifier,
    one_decomposition, one_design, one_riccati,
]  # fmt: skip


# Children of a server that has imported all this and computed nothing: their own fork, of a process with one thread.
FORKS = multiprocessing.get_context("forkserver") if hasattr(os, "fork") else None
if FORKS is not None:
    FORKS.set_forkserver_preload([__name__])


@pytest.mark.skipif(FORKS is None, reason="needs fork and signals")
@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_interrupts_are_seen_within_a_second(work):
    if work in (estimator, classifier):
        pytest.importorskip("sklearn")
    here, there = FORKS.Pipe(duplex=False)
    child = FORKS.Process(target=_child, args=(work, there))
    child.start()
    there.close()
    assert here.poll(300), "no answer"
    outcome, late, gap, gradients = here.recv()
    child.join(60)
    assert outcome == "interrupted"
    assert late < 1
    assert gap < 2e-5 and gradients
