import torch
from torch import nn
from torch.nn import functional as F


class SlotAttention(nn.Module):
    """Locatello et al. 2020: the softmax runs over the SLOTS (queries), then rows are renormalised over inputs."""

    def __init__(self, dim, n_slots, iters=3, eps=1e-6):
        super().__init__()
        self.n_slots, self.iters, self.eps = n_slots, iters, eps
        self.slots0 = nn.Parameter(torch.randn(1, n_slots, dim) * 0.5)
        self.norm_in, self.norm_slot = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)

    def forward(self, feats):
        b, n, d = feats.shape
        feats = self.norm_in(feats)
        k, v = self.k(feats), self.v(feats)
        slots = self.slots0.expand(b, -1, -1)
        for _ in range(self.iters):
            q = self.q(self.norm_slot(slots))
            logits = torch.einsum("bsd,bnd->bsn", q, k) * d ** -0.5
            attn = logits.softmax(dim=1)                       # slots compete for each input
            weights = (attn + self.eps) / (attn + self.eps).sum(-1, keepdim=True)
            updates = torch.einsum("bsn,bnd->bsd", weights, v)
            slots = self.gru(updates.reshape(-1, d), slots.reshape(-1, d)).view(b, self.n_slots, d)
        return slots, attn


class SetAutoencoder(nn.Module):
    def __init__(self, dim=32, slots=3):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.slot = SlotAttention(dim, slots)
        self.decode = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 2))

    def forward(self, pts):
        slots, attn = self.slot(self.embed(pts))
        centre = self.decode(slots)                            # (B, S, 2)
        return torch.einsum("bsn,bsd->bnd", attn, centre), attn


def scene(b):
    anchors = torch.tensor([[-1.0, -0.6], [1.0, -0.6], [0.0, 1.0]])
    c = anchors + 0.2 * torch.randn(b, 3, 2)
    pts = c.repeat_interleave(4, dim=1) + 0.08 * torch.randn(b, 12, 2)
    order = torch.rand(b, 12).argsort(1)
    return pts.gather(1, order[..., None].expand(-1, -1, 2))


def main():
    torch.manual_seed(2)
    model = SetAutoencoder()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for it in range(61):
        pts = scene(24)
        recon, attn = model(pts)
        loss = F.mse_loss(recon, pts)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if it % 15 == 0:
            print(f"it {it:3d}  mse {loss.item():.4f}  sharpest slot {attn.max(1).values.mean().item():.2f}")


if __name__ == "__main__":
    main()
