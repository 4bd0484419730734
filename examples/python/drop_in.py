"""A hand-written PyTorch loop, and the one line that makes it a controlled one.

     optimizer = torch.optim.SGD(model.parameters(), lr=lr)
   + controller = cdt.Controller(model, x, y, lr=lr)
     for step in range(300):
         y_hat = model(x)
   -     loss = F.mse_loss(y_hat, y)
   +     loss = F.mse_loss(y_hat, controller.augment(y_hat))
         optimizer.zero_grad()
         loss.backward()
         optimizer.step()
"""

import torch
import torch.nn.functional as F

import cdt

torch.manual_seed(1)
x = torch.rand(64, 4) - 0.5
y = (torch.sin(3 * x[:, 0]) * x[:, 1]).unsqueeze(1)
lr = 3.0  # far beyond what plain gradient descent survives


def train(controlled):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    controller = cdt.Controller(model, x, y, lr=lr)
    for step in range(300):
        y_hat = model(x)
        if not torch.isfinite(y_hat).all():
            return float("inf")
        loss = F.mse_loss(y_hat, controller.augment(y_hat) if controlled else y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return F.mse_loss(model(x), y).item()


if __name__ == "__main__":
    plain, controlled = train(False), train(True)
    print(f"gradient descent    {plain:.1e}")
    print(f"controlled descent  {controlled:.1e}")
    assert not plain < 1 and controlled < 1e-3
