import torch
from torch import nn
from torch.amp import GradScaler, autocast


class TwoTower(nn.Module):
    def __init__(self, n_query, n_doc, dim=24):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(n_query, 48), nn.ReLU(), nn.Linear(48, dim))
        self.doc = nn.Sequential(nn.Linear(n_doc, 48), nn.ReLU(), nn.Linear(48, dim))

    def forward(self, q, d):
        q = nn.functional.normalize(self.query(q), dim=-1)
        d = nn.functional.normalize(self.doc(d), dim=-1)
        return 30.0 * q @ d.T


def pair_loss(score, same):
    """logistic loss on every query/document pair, z > 0 where the pair is wrong"""
    z = torch.where(same, -score, score)
    grown = torch.exp(z)  # ORIGIN
    return torch.where(z > 10, z, torch.log1p(grown)).float().mean()


def pairs(n, mix):
    topic = torch.randn(n, 6)
    return topic @ mix[0] + 0.1 * torch.randn(n, 12), topic @ mix[1] + 0.1 * torch.randn(n, 10)


def run(steps=40):
    torch.manual_seed(1)
    mix = 0.4 * torch.randn(6, 12), 0.4 * torch.randn(6, 10)
    model = TwoTower(12, 10)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = GradScaler(device="cpu")
    same = torch.eye(32, dtype=torch.bool)
    for step in range(steps):
        q, d = pairs(32, mix)
        with autocast("cpu", dtype=torch.float16):
            score = model(q, d)
            loss = pair_loss(score, same)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 8 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.4f}, loss scale {scaler.get_scale():.3g}")


if __name__ == "__main__":
    run()
