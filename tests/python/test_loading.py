"""Runs of the program, loaded: the same predictions as `cdt predict`, and the same model as plain PyTorch."""

import inspect
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch

pd = pytest.importorskip("pandas")
import cdt  # noqa: E402

PROGRAM = os.environ["CDT_PROGRAM"]
if not pathlib.Path(PROGRAM).is_file():
    pytest.skip("the program is not built", allow_module_level=True)


def program(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    program("data", "make", folder / "houses.csv", "--rows", 100)
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
    # Two of all rows, two that held some out; a line may be beside them.
    assert len(module.members) - getattr(module, "any_line", False) == (1 if name == "fit" else 4)
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
    _export_onnx(run.module, x, tmp_path / "model.onnx")


def _skip_without_onnx(error):
    """PyTorch's exporters need packages that may be missing, and say so in one way or another; all else is an error."""
    if not isinstance(error, ImportError) and "not installed" not in str(error):
        raise error
    assert "onnx" in str(error)
    pytest.skip(f"PyTorch does not export to ONNX here: {error}")


def _export_onnx(module, x, file):
    """Writes the file, of three rows; what it says must predict the same, of another number of rows."""
    # The exporter that PyTorch 1.13 has, which later ones keep beside another: what it writes are operators of the standard that onnx_numpy knows.
    same = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    try:
        torch.onnx.export(module, x[:3], str(file), input_names=["features"], output_names=["predictions"], dynamic_axes={"features": [0]}, **same)
    except Exception as error:
        _skip_without_onnx(error)
    onnx_numpy = pytest.importorskip("onnx_numpy", reason="the file is written; to evaluate it needs onnx (Debian: python3-onnx)")
    (found,) = onnx_numpy.evaluate(file, features=x.numpy())
    with torch.no_grad():
        expected = module(x).numpy()
    assert found.shape == expected.shape and np.all(np.abs(found - expected) < 1e-5 * np.abs(expected).max())


PLAIN = ["--method", "gd", "--lr", 0.01]  # nothing beside the parameters: of AlexNet they are a quarter of a gigabyte
PICTURES = {
    "squares": ["--arch", "cnn", "--hidden", "6,8", "--size", 24],
    "ntk": ["--arch", "cnn", "--hidden", "6,8", "--size", 24, "--grey", "--loss", "cross-entropy", "--parametrization", "ntk", "--sigma-w", 1.2],
    "dense": ["--arch", "mlp", "--hidden", "12", "--size", 16],
    "resnet18": ["--arch", "resnet18", "--size", 32, "--parametrization", "ntk", "--sigma-w", 1, *PLAIN],
    "alexnet": ["--arch", "alexnet", "--size", 63, *PLAIN],
}
LARGE = ("resnet18", "alexnet")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    program("data", "make-pictures", folder / "shapes", "--rows", 12, "--size", 32)
    return folder


@pytest.fixture(scope="module")
def picture_run(pictures):
    """Trains one of them, once."""

    def trained(name):
        out = pictures / name
        if not out.exists():
            steps = 0 if name in LARGE else 1
            program("train", pictures / "shapes", "--out", out, "--steps", steps, "--quiet", "--no-analysis", *PICTURES[name])
        return out

    return trained


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_predicted_as_by_the_program(name, picture_run, pictures):
    picture_run = picture_run(name)
    run = cdt.load(picture_run)
    assert isinstance(run, cdt.PictureRun) and run.classes == ["disc", "square"]
    out = picture_run.with_suffix(".csv")
    program("predict", picture_run, pictures / "shapes", "--out", out, "--quiet")
    said = pd.read_csv(out)
    probabilities = said.iloc[:, 3:].to_numpy()
    names, x = run.read(pictures / "shapes")
    assert names == list(said["picture"]) and tuple(x.shape[1:]) == run.shape and 0 <= x.min() < x.max() <= 1
    for given in (pictures / "shapes", x) if name in LARGE else (pictures / "shapes", str(pictures / "shapes"), x, x.numpy()):
        assert np.all(np.abs(run.predict_proba(given) - probabilities) < 1e-5)
    assert list(run.predict(x)) == list(said["class"])
    one = run.predict_proba(pictures / "shapes" / names[3])
    assert one.shape == (1, 2) and np.all(np.abs(one - probabilities[3]) < 1e-5)
    # The same in plain PyTorch, and in what it exports.
    module = run.module
    traced = torch.jit.trace(module, run.encode(x)[:2])
    with torch.no_grad():
        assert np.all(np.abs(traced(run.encode(x)).numpy() - probabilities) < 1e-5)
    if name != "alexnet":  # whose pooling PyTorch does not export at this size
        _export_onnx(module, run.encode(x)[:5], picture_run.with_suffix(".onnx"))
    with torch.no_grad():
        assert np.all(np.abs(module(run.encode(x)).numpy() - probabilities) < 1e-5)
    module.train()
    module(run.encode(x)[:4]).square().sum().backward()
    assert all(p.grad is not None for p in module.parameters())


def test_wrong_pictures_are_named(picture_run, pictures):
    run = cdt.load(picture_run("dense"))
    with pytest.raises(ValueError, match=r"shape \[n, 3, 16, 16\], got \[2, 3, 32, 32\]"):
        run.predict(torch.zeros(2, 3, 32, 32))
    with pytest.raises(ValueError, match=r"in \[0, 1\].*got 0 to 200"):
        run.predict(torch.linspace(0, 200, 3 * 256).view(1, 3, 16, 16))
    assert len(run.predict(torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8))) == 3
    with pytest.raises(ValueError, match="expected pictures, as the run was trained on"):
        run.predict(pictures / "no such folder")
    with pytest.raises(ValueError, match="there are no intervals"):
        run.predict_interval(pictures / "shapes")
    assert "pictures 3 × 16 × 16" in repr(run)


def test_resnet_has_torchvision_s_layout(pictures):
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    theirs = torchvision.models.resnet18(num_classes=2).eval()
    with torch.no_grad():
        for module in theirs.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    from cdt._networks import ResNet18

    mine = ResNet18("relu", theirs.state_dict()).train()
    x = torch.rand(3, 3, 40, 40)
    assert torch.allclose(mine(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_wrong_frames_and_folders(folder, frame, tmp_path):
    run = cdt.load(folder / "numbers")
    with pytest.raises(ValueError, match=repr(run.columns[0])[1:-1]):
        run.predict(frame.drop(columns=run.columns[0]))
    with pytest.raises(ValueError, match="expected a frame"):
        run.predict(frame.to_numpy())
    text = next(name for name in run.columns if not pd.api.types.is_numeric_dtype(frame[name]))
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
