import torch
from torch import nn
import torch.nn.functional as F


class TwoStage(nn.Module):
    """Cheap encoder in low precision, small head in full precision."""

    def __init__(self, d_in=20, d_hid=32, n_out=4):
        super().__init__()
        self.lift = nn.Linear(d_in, d_hid)
        self.mix = nn.Linear(d_hid, d_hid)
        self.norm = nn.LayerNorm(d_hid)
        self.head = nn.Linear(d_hid, n_out)

    def encode(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.norm(F.gelu(self.lift(x)))
            code = self.mix(h).float()
        return code

    def forward(self, x):
        code = self.encode(x)
        return self.head(code)


def spiral(n, generator):
    t = torch.rand(n, generator=generator) * 6
    arm = torch.randint(4, (n,), generator=generator)
    angle = t + arm * 1.57
    xy = torch.stack([t * angle.cos(), t * angle.sin()], dim=1)
    freqs = torch.arange(1, 6) * 0.5
    feats = (xy[:, :, None] * freqs).flatten(1)
    return torch.cat([feats.sin(), feats.cos()], dim=1), arm


gen = torch.Generator().manual_seed(0)
torch.manual_seed(0)
model = TwoStage()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(30):
    x, arm = spiral(64, gen)
    loss = F.cross_entropy(model(x), arm)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.3f}")
