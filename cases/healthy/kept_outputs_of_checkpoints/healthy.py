"""A deep autoencoder with recomputed blocks, watched through its last few reconstructions."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return x + torch.tanh(self.norm(self.linear(x)))


class Autoencoder(nn.Module):
    def __init__(self, inputs=24, width=48, blocks=2):
        super().__init__()
        self.encode = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.decode = nn.Linear(width, inputs)

    def forward(self, x):
        h = self.encode(x)
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False)
        return self.decode(h)


torch.manual_seed(4)
basis = torch.randn(5, 24)
model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
recent = []
for step in range(80):
    batch = torch.randn(32, 5) @ basis + 0.1 * torch.randn(32, 24)
    output = model(batch)
    loss = (output - batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    probe = model(batch[:8])
    recent = [*recent, probe][-8:]
    if step % 20 == 19:
        spread = torch.stack([each.detach().std() for each in recent]).mean()
        print(f"step {step} loss {loss.item():.4f} spread {spread:.4f}")
