"""Runs of the program, loaded: the same predictions as `cdt predict`, and the same model as plain PyTorch."""

import io
import os
import pathlib
import re
import subprocess

import numpy as np
import pandas as pd
import pytest
import torch

import cdt

PROGRAM = os.environ["CDT_PROGRAM"]


def program(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    program("data", "make", folder / "houses.csv", "--rows", 150)
    small = ["--hidden", "16,8", "--ensemble", 2, "--quiet"]
    houses = folder / "houses.csv"
    program("train", houses, "--target", "price", "--out", folder / "numbers", *small)
    program("train", houses, "--target", "price", "--out", folder / "ntk", "--parametrization", "ntk", "--sigma-w", 1, "--activation", "gelu", *small)
    program("train", houses, "--target", "price", "--out", folder / "fit", "--goal", "fit", "--hidden", "16", "--steps", 5, "--quiet")
    frame = pd.read_csv(houses)
    frame["size"] = np.where(frame.price > frame.price.median(), "large, or dear", "small")
    frame.drop(columns="price").to_csv(folder / "sizes.csv", index=False)
    program("train", folder / "sizes.csv", "--target", "size", "--out", folder / "classes", *small)
    return folder


@pytest.fixture(scope="module")
def frame(folder):
    return pd.read_csv(folder / "houses.csv").drop(columns="price")


@pytest.mark.parametrize("name", ["numbers", "ntk", "fit"])
def test_numbers_are_those_of_the_program(folder, frame, name):
    run = cdt.load(folder / name)
    assert run.targets == ["price"] and run.classes == []
    frame.to_csv(folder / "new.csv", index=False)
    interval = [] if name == "fit" else ["--interval", 0.8]
    program("predict", folder / name, folder / "new.csv", "--out", folder / "out.csv", "--quiet", *interval)
    said = pd.read_csv(folder / "out.csv")
    rounding = 1e-5 * said.price.abs().max()  # the program predicts in float32
    assert np.all(np.abs(run.predict(frame) - said.price) < rounding)
    if interval:
        bounds = run.predict_interval(frame, 0.8)
        assert np.all(np.abs(bounds - said[["price_low", "price_high"]].to_numpy()) < 10 * rounding)
    else:
        with pytest.raises(ValueError, match="there are no intervals"):
            run.predict_interval(frame)


def test_classes_are_those_of_the_program(folder, frame):
    run = cdt.load(folder / "classes")
    assert run.classes == ["large, or dear", "small"]
    program("predict", folder / "classes", folder / "sizes.csv", "--out", folder / "out.csv", "--quiet")
    said = pd.read_csv(folder / "out.csv")
    assert list(run.predict(frame)) == list(said["size"])
    assert np.all(np.abs(run.predict_proba(frame) - said.iloc[:, 2:].to_numpy()) < 1e-5)
    with pytest.raises(ValueError, match="there are no intervals"):
        run.predict_interval(frame)


@pytest.mark.parametrize("name", ["numbers", "ntk", "fit", "classes"])
def test_module(folder, frame, name):
    run = cdt.load(folder / name)
    x = run.encode(frame)
    assert x.shape == (len(frame), len(run.features)) and x.dtype == torch.float32
    expected = run.predict_proba(frame) if run.classes else run.predict(frame)[:, None]
    module = run.module
    with torch.no_grad():
        found = module(x)
    assert np.all(np.abs(found.numpy() - expected) < 1e-5 * np.abs(expected).max())
    assert isinstance(module.members[0], torch.nn.Sequential)
    assert len(module.members) == (1 if name == "fit" else 4)  # two of all rows, two that held some out
    # It trains like any other, and the run stays what it was.
    module.members[0][0].weight.data.zero_()
    assert np.array_equal(run.predict_proba(frame) if run.classes else run.predict(frame)[:, None], expected)


@pytest.mark.parametrize("name", ["numbers", "ntk", "classes"])
def test_export(folder, frame, name, tmp_path):
    run = cdt.load(folder / name)
    x = run.encode(frame)
    traced = torch.jit.trace(run.module, x[:3])
    traced.save(str(tmp_path / "model.pt"))
    with torch.no_grad():
        assert torch.equal(torch.jit.load(str(tmp_path / "model.pt"))(x), run.module(x))
    stream = io.BytesIO()
    torch.onnx.export(run.module, x[:3], stream, input_names=["features"], output_names=["predictions"], dynamic_axes={"features": [0]})
    weights = sum(p.numel() for p in run.module.parameters())
    assert b"predictions" in stream.getvalue() and len(stream.getvalue()) > 4 * weights
    try:
        import onnx
    except ImportError:
        return  # PyTorch exports without it
    onnx.checker.check_model(onnx.load_model_from_string(stream.getvalue()))


def test_wrong_frames_and_folders(folder, frame, tmp_path):
    run = cdt.load(folder / "numbers")
    with pytest.raises(ValueError, match=repr(run.columns[0])[1:-1]):
        run.predict(frame.drop(columns=run.columns[0]))
    with pytest.raises(ValueError, match="expected a frame"):
        run.predict(frame.to_numpy())
    text = next(name for name in run.columns if frame[name].dtype == object)
    with pytest.warns(UserWarning, match="what training did not know"):
        run.predict(frame.assign(**{text: "never seen"}))
    with pytest.raises(ValueError, match="no probabilities"):
        run.predict_proba(frame)
    with pytest.raises(ValueError, match="expected a finished run"):
        cdt.load(tmp_path)
    subprocess.run(["cp", "-r", folder / "numbers", tmp_path / "copy"], check=True)
    with open(tmp_path / "copy" / "model-2.safetensors", "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"xyz")
    with pytest.raises(ValueError, match="is damaged"):
        cdt.load(tmp_path / "copy")


def test_the_documentation_runs(folder, tmp_path, monkeypatch, capsys):
    """The Python of docs/estimators.md, in its order, in one namespace."""
    monkeypatch.chdir(tmp_path)
    os.symlink(folder / "houses.csv", "houses.csv")
    os.symlink(folder / "numbers", "run1")
    text = (pathlib.Path(os.environ["CDT_SOURCE"]) / "docs" / "estimators.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(compile("\n" * text[: text.index(block)].count("\n") + block, "docs/estimators.md", "exec"), names)
    assert "expect to be off by" in capsys.readouterr().out
    assert os.path.getsize("model.pt") > 1000 and os.path.getsize("model.onnx") > 1000
