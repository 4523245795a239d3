import torch
import torch.nn as nn
import torch.nn.functional as F


class DistanceBias(nn.Module):
    """Adds a learned penalty per token distance to the attention scores."""

    def __init__(self, max_len):
        super().__init__()
        self.penalty = nn.Parameter(-torch.arange(max_len))  # ORIGIN
        pos = torch.arange(max_len)
        self.register_buffer("distance", (pos[:, None] - pos[None, :]).abs())

    def forward(self, scores):
        n = scores.size(-1)
        return scores + self.penalty[self.distance[:n, :n]]


class TinyAttention(nn.Module):
    def __init__(self, dim, max_len):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.bias = DistanceBias(max_len)
        self.out = nn.Linear(dim, dim)
        self.scale = dim ** -0.5

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = torch.einsum("bid,bjd->bij", q, k) * self.scale
        weights = self.bias(scores).softmax(dim=-1)
        return self.out(torch.einsum("bij,bjd->bid", weights, v))


def batches(steps, batch=8, length=10, dim=16):
    """Task: every position has to copy the one before it."""
    for _ in range(steps):
        x = torch.randn(batch, length, dim)
        yield x, torch.roll(x, shifts=1, dims=1)


def train(steps=30):
    torch.manual_seed(11)
    model = TinyAttention(dim=16, max_len=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i, (x, y) in enumerate(batches(steps)):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            print(f"step {i:3d} loss {loss.item():.4f}")


if __name__ == "__main__":
    train()
