"""A small convolutional network on pictures of two kinds, without a learning rate: crosses and circles, drawn with noise."""

import torch

import cdt


def pictures(count, size=16, seed=0):
    """Crosses (0) and circles (1) of random size and place, with noise."""
    generator = torch.Generator().manual_seed(seed)
    row = torch.arange(size, dtype=torch.float32)
    labels = torch.randint(0, 2, (count,), generator=generator)
    centre = 5 + (size - 10) * torch.rand(count, 2, 1, 1, generator=generator)
    radius = 2.5 + 2 * torch.rand(count, 1, 1, generator=generator)
    dy, dx = row.view(-1, 1) - centre[:, 0], row.view(1, -1) - centre[:, 1]
    distance = (dx**2 + dy**2).sqrt()
    circle = torch.exp(-((distance - radius) ** 2))
    cross = torch.exp(-torch.minimum(dx.abs(), dy.abs()) ** 2) * (distance < radius + 1)
    shapes = torch.where(labels.view(-1, 1, 1) == 1, circle, cross)
    return (shapes + 0.2 * torch.randn(shapes.shape, generator=generator)).unsqueeze(1), labels


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(256, 2),
    )  # fmt: skip
    x, y = pictures(120, seed=1)
    x_new, y_new = pictures(500, seed=2)
    print(cdt.analyze(model, x, y, loss="cross-entropy"))
    opt = cdt.optim.Guarded(model, "cross-entropy")
    for step in range(12):
        loss = opt.step(x, y)
        print(f"step {step:2d}  loss {loss:.4f}  new pictures {accuracy(model, x_new, y_new):.1%}")
    assert accuracy(model, x, y) == 1 and accuracy(model, x_new, y_new) > 0.9
