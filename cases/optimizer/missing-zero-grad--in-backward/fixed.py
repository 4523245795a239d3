"""A regressor whose weights are each updated as soon as their gradient is complete, so that no two gradients are in memory at once."""

import torch
from torch import nn


class StepInBackward:
    def __init__(self, model: nn.Module, **settings):
        self.optimizers = {weight: torch.optim.SGD([weight], **settings) for weight in model.parameters()}
        for weight in self.optimizers:
            weight.register_post_accumulate_grad_hook(self.update)

    def update(self, weight: torch.Tensor) -> None:
        own = self.optimizers[weight]
        own.step()
        own.zero_grad()


def main():
    torch.manual_seed(0)
    readings = torch.randn(512, 12)
    yields = (readings[:, :3].prod(1) + readings[:, 4]).unsqueeze(1)
    model = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 1))
    StepInBackward(model, lr=5e-3, momentum=0.9)
    for step in range(40):
        rows = torch.randint(0, len(readings), (64,))
        loss = nn.functional.huber_loss(model(readings[rows]), yields[rows])
        loss.backward()
        if step % 10 == 9:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
