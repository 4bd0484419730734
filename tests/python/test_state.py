"""What a call leaves behind: nothing. Of the model, of the process, of the thread."""

import gc
import platform
import resource
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch import nn

import cdt
from oracle import jacobian_kernel, relative_error


def network(seed=1, inputs=4, outputs=2):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def test_model_and_generator_are_left_alone():
    model, x = network(), torch.randn(6, 4)
    model[0].eval()  # a mixture of modes
    model(x).sum().backward()
    parameters = list(model.parameters())
    gradients = [p.grad.clone() for p in parameters]
    values = [p.detach().clone() for p in parameters]
    calls = []
    model[2].register_forward_hook(lambda *_: calls.append("forward"))
    model.zero = torch.nn.Parameter(torch.zeros(1))
    modes = [m.training for m in model.modules()]
    hooks = [list(m._forward_hooks) for m in model.modules()]
    state = torch.get_rng_state()

    cdt.ntk(model, x)
    cdt.NTK(model, x) @ torch.ones(12)
    cdt.jvp(model, x, torch.ones(sum(p.numel() for p in model.parameters())))
    cdt.vjp(model, x, torch.ones(12))
    cdt.linearize(model, x)()
    cdt.analyze(model, x, torch.zeros(6, 2), lr=0.01, trial_steps=3)
    cdt.Controller(model, x, torch.zeros(6, 2), lr=0.1).augment(model(x))

    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in model.modules()] == modes
    assert [list(m._forward_hooks) for m in model.modules()] == hooks
    assert calls  # the user's hooks run, as in any forward pass
    assert model.zero.grad is None
    assert all(torch.equal(p.grad, g) for p, g in zip(parameters, gradients))
    assert all(torch.equal(p, v) for p, v in zip(parameters, values))
    assert torch.is_grad_enabled() and x.grad is None and not x.requires_grad


def test_inputs_may_require_gradients():
    model, x = network(), torch.randn(5, 4, requires_grad=True)
    assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x.detach())) < 2e-5
    assert x.grad is None


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_no_leak_over_a_thousand_calls():
    model, x = network(), torch.randn(32, 4)
    target = torch.zeros(32, 2)

    def once():
        cdt.ntk(model, x)
        cdt.Controller(model, x, target, lr=0.1).augment(model(x))

    for _ in range(100):
        once()
    gc.collect()
    objects, before = len(gc.get_objects()), resident()
    for _ in range(1000):
        once()
    gc.collect()
    assert len(gc.get_objects()) - objects < 50
    assert resident() - before < 8 << 20  # a kernel of 64×64 for each call would be four times as much


def test_models_are_let_go():
    import weakref

    model = network()
    alive = weakref.ref(model)
    theta, opt = cdt.NTK(model, torch.randn(3, 4)), cdt.optim.Guarded(model)
    cdt.ntk(model, torch.randn(3, 4))
    opt.step(torch.randn(3, 4), torch.zeros(3, 2))
    del model, theta, opt
    gc.collect()
    assert alive() is None


def test_kernels_of_a_module_that_has_changed():
    """What is kept of a module from one kernel to the next is about the module as it is."""
    model, x = network(), torch.randn(5, 4)

    def right(tolerance=2e-5):
        assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < tolerance

    right()
    with torch.no_grad():
        model[0].weight += 1
    right()
    model[0].bias.requires_grad_(False)
    right()
    model[0] = nn.Linear(4, 16)
    right()
    model[2].weight = nn.Parameter(torch.randn(2, 16))
    right()
    model.append(nn.Dropout())
    with pytest.raises(ValueError, match="eval"):
        cdt.ntk(model, x)
    model.eval()
    right()
    model.double()
    x = x.double()
    right(1e-11)
    x = torch.randn(3, 4, dtype=torch.float64)
    right(1e-11)
    model[2] = nn.Linear(16, 5, dtype=torch.float64)
    right(1e-11)


def test_two_threads_at_once():
    models = [network(seed) for seed in range(4)]
    inputs = [torch.randn(30, 4) for _ in models]
    expected = [jacobian_kernel(m, x) for m, x in zip(models, inputs)]
    worst = [0.0] * len(models)

    def work(i):
        for _ in range(20):
            worst[i] = max(worst[i], relative_error(cdt.ntk(models[i], inputs[i]), expected[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(worst) < 2e-5


def test_other_threads_run_meanwhile():
    """The lock of the interpreter is free while the library works."""
    torch.manual_seed(0)
    A = torch.randn(700, 700, dtype=torch.float64)
    theta = A @ A.T
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    cdt.analyze(theta, lr=1e-6)
    end = time.perf_counter()
    done.set()
    thread.join()
    inside = [t for t in ticks if start < t < end]
    assert len(inside) > 5, f"{len(inside)} ticks in {end - start:.3f} s"


FORKS = """
import multiprocessing, torch, cdt

def kernel():
    torch.manual_seed(1)
    return cdt.ntk(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)), torch.ones(3, 4)).sum().item()

context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=lambda: queue.put(kernel()))
process.start()
print(queue.get(timeout=60), kernel())
process.join(60)
assert process.exitcode == 0
"""


def test_fork_after_import():
    """In a process of its own: PyTorch with CUDA refuses gradients in a child whose parent has computed some."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    there, here = map(float, done.stdout.split())
    assert there == pytest.approx(here, rel=1e-12)


FREED = """
import resource, torch
torch.set_num_threads(1)
import cdt

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    return [torch.ones(1 << 19) for _ in range(20)]  # 40 MiB, gone at once

step()
before = faults()
for _ in range(10):
    step()
print(faults() - before)
"""


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="a rule of glibc's")
def test_freed_memory_is_kept_for_the_next_step():
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * resource.getpagesize() < 40 << 20  # a step's, of ten


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((4,), float(i)) / 8, torch.full((2,), float(i)) / 8


def test_data_loader_workers():
    model = network()
    opt = cdt.optim.Guarded(model)
    for x, y in torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2):
        opt.step(x, y)
    assert opt.steps == 2


class Raises(nn.Module):
    """Fails at the given call."""

    def __init__(self, at, error):
        super().__init__()
        self.inner, self.at, self.error, self.calls = network(), at, error, 0

    def forward(self, x):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return self.inner(x)


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_error_in_the_model_leaves_nothing_recording(at, error):
    model, x = Raises(at, error), torch.randn(5, 4)
    with pytest.raises(type(error)):
        cdt.ntk(model, x)
        cdt.ntk(model, x)
    # A recorder that was left would meet dropout here, and call the model's own passes its own.
    nn.Sequential(nn.Linear(4, 4), nn.Dropout())(x)
    assert relative_error(cdt.ntk(model.inner, x), jacobian_kernel(model.inner, x)) < 2e-5


def test_an_error_in_a_step_takes_it_back():
    torch.manual_seed(0)
    model, x, y = Raises(0, KeyError("mine")), torch.randn(12, 4), torch.randn(12, 2)
    opt = cdt.optim.Guarded(model)
    opt.step(x, y)
    before = [p.detach().clone() for p in model.parameters()]
    model.at = model.calls + 1
    with pytest.raises(KeyError, match="mine"):
        opt.step(x.clone(), y)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before))
    first, second = opt.step(x, y), opt.step(x, y)
    assert second < first
