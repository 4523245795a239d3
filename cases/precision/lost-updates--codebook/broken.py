"""Product quantisation of descriptors: codewords are learnt, assignments are soft."""
import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self, parts, words, dim, **kind):
        super().__init__()
        self.words = nn.Parameter(torch.randn(parts, words, dim, **kind))  # ORIGIN

    def forward(self, x):
        parts, _, dim = self.words.shape
        x = x.view(len(x), parts, 1, dim)
        words = self.words.float()
        near = (-(x - words).square().sum(-1) / 0.5).softmax(-1)
        return (near.unsqueeze(-1) * words).sum(2).flatten(1)


class Quantiser(nn.Module):
    def __init__(self, dim=16, parts=4, words=12, dtype=torch.float32):
        super().__init__()
        self.rotate = nn.Linear(dim, dim, bias=False)
        self.book = Codebook(parts, words, dim // parts, dtype=dtype)

    def forward(self, x):
        return self.book(self.rotate(x)) @ self.rotate.weight


def main(steps=60, device="cpu"):
    torch.manual_seed(14)
    model = Quantiser(dtype=torch.bfloat16)
    model.to(device)
    nn.init.eye_(model.rotate.weight)
    optimizer = torch.optim.Adam([{"params": model.book.parameters(), "lr": 1e-3}, {"params": model.rotate.parameters()}], lr=1e-4)
    spots = 2 * torch.randn(40, 16)
    for step in range(steps):
        x = spots[torch.randint(40, (64,))] + 0.1 * torch.randn(64, 16)
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"{step:3d}  {loss.item():.4f}")


main()
