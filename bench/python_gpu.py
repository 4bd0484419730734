"""cdt.ntk on a GPU beside a kernel of torch.func, both from Python. usage: PYTHONPATH=build-cuda/python python3 bench/python_gpu.py

TF32 is off for both; times are the best of repeated calls on the same shapes, after some that warm up. The peer is that of bench/gpu.py: PyTorch's tutorial. Called
plainly, cdt.ntk replays its operators and calls the module once to see that they are still its own; with repeatable=True it does not look, with False it asks for them
one by one.
"""
import torch

import cdt
from gpu import NETWORKS, REPETITIONS, best_of, judge, torch_func_kernel

CHOSEN, BAR = ("mlp3", "cnn", "alexnet"), 3


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cdt {cdt.__version__}")
    print("\n| kernel | `torch.func` | `cdt.ntk` | ratio | bar | `repeatable=True` | ratio | bar | `repeatable=False` | ratio | bar | difference |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in CHOSEN:
        title, make, shape, *_ = NETWORKS[name]
        model, x = make().cuda(), torch.randn(*shape, device="cuda") * 0.3
        peer = torch_func_kernel(model, x)
        theirs = best_of(peer, REPETITIONS)
        expected = peer().double()
        expected = expected.reshape(len(x) * expected.shape[1], -1)
        torch.cuda.empty_cache()
        cells, differences = [f"{1e3 * theirs:.2f} ms"], []
        for repeatable in (None, True, False):
            ours = best_of(lambda: cdt.ntk(model, x, repeatable=repeatable), REPETITIONS)
            cells += [f"{1e3 * ours:.3f} ms", f"{theirs / ours:.1f}", judge(theirs / ours, None if repeatable is False else BAR, most=False)]
            differences.append(((cdt.ntk(model, x, repeatable=repeatable) - expected).norm() / expected.norm()).item())
        print(f"| {title} | {' | '.join(cells)} | {max(differences):.1e} |", flush=True)
        del model, x, peer, expected
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
