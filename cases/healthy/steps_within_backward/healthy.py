"""Each weight is updated while backward is under way: by an optimizer of its own, by one for a whole block, and by hand."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + nn.functional.dropout(self.outer(self.inner(self.norm(x)).relu()), 0.1, self.training)


def each_by_its_own(module: nn.Module) -> None:
    optimizers = {weight: torch.optim.AdamW([weight], lr=2e-3) for weight in module.parameters()}

    def update(weight):
        optimizers[weight].step()
        optimizers[weight].zero_grad()

    for weight in optimizers:
        weight.register_post_accumulate_grad_hook(update)


def when_all_are_there(module: nn.Module) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)
    waiting = set(module.parameters())

    def update(weight):
        waiting.discard(weight)
        if not waiting:
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            waiting.update(module.parameters())

    for weight in list(waiting):
        weight.register_post_accumulate_grad_hook(update)


@torch.no_grad()
def by_hand(weight):
    weight -= 0.02 * weight.grad
    weight.grad = None


torch.manual_seed(0)
blocks = nn.ModuleList(Block(16) for _ in range(3))
head = nn.Linear(16, 4)
each_by_its_own(blocks[0])
each_by_its_own(blocks[1])
when_all_are_there(blocks[2])
for weight in head.parameters():
    weight.register_post_accumulate_grad_hook(by_hand)

points = torch.randn(640, 16)
labels = points[:, :4].argmax(1)
for _epoch in range(12):
    for rows in torch.randperm(len(points)).split(40):
        hidden = points[rows]
        for block in blocks:
            hidden = block(hidden)
        loss = nn.functional.cross_entropy(head(hidden), labels[rows])
        loss.backward()
print(f"{loss.item():.4f}")
