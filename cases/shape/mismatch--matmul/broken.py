import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.n_heads, self.d_head).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k / math.sqrt(self.d_head)  # ORIGIN
        ctx = F.softmax(scores, dim=-1) @ v
        return self.proj(ctx.transpose(1, 2).reshape(b, t, d))


class SetSum(nn.Module):
    """Predicts which of the ten digits occurs most often in a set."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 32)
        self.attn = SelfAttention()
        self.readout = nn.Linear(32, 10)

    def forward(self, digits):
        h = self.embed(digits)
        h = h + self.attn(h)
        return self.readout(h.sum(dim=1))


torch.manual_seed(0)
model = SetSum()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
step = 0
while step < 30:
    digits = torch.randint(0, 10, (16, 15))
    most = digits.mode(dim=1).values
    loss = F.cross_entropy(model(digits), most)
    opt.zero_grad()
    loss.backward()
    opt.step()
    step += 1
print("loss", loss.item())
