import torch
from torch import nn


class PairPotential(nn.Module):
    """Energy of a small cluster from pair distances; forces are minus its gradient."""

    def __init__(self, width=32, n_basis=12):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0.5, 3.0, n_basis))
        self.net = nn.Sequential(nn.Linear(n_basis, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def energy(self, pos):
        i, j = torch.triu_indices(pos.size(1), pos.size(1), offset=1)
        r = (pos[:, i] - pos[:, j]).norm(dim=-1)
        basis = torch.exp(-8 * (r[..., None] - self.centres) ** 2)
        return self.net(basis).squeeze(-1).sum(1)

    def forward(self, pos, training):
        pos = pos.detach().requires_grad_(True)
        e = self.energy(pos)
        f = -torch.autograd.grad(e.sum(), pos, create_graph=training)[0]
        return e, f


def reference(pos):
    """Morse pairs"""
    pos = pos.clone().requires_grad_(True)
    i, j = torch.triu_indices(pos.size(1), pos.size(1), offset=1)
    r = (pos[:, i] - pos[:, j]).norm(dim=-1)
    e = ((1 - torch.exp(-(r - 1.3))) ** 2 - 1).sum(1)
    return e.detach(), -torch.autograd.grad(e.sum(), pos)[0]


def clusters(n):
    tetra = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * 0.5
    return tetra + 0.15 * torch.randn(n, 4, 3)


def validate(model, pos):
    # no torch.no_grad() here: the forces need autograd
    model.eval()
    e_ref, f_ref = reference(pos)
    e_sum = f_sum = 0.0
    for rows in torch.arange(len(pos)).split(16):
        e, f = model(pos[rows], training=False)
        e_sum += (e - e_ref[rows]).abs().sum().item()
        f_sum += (f - f_ref[rows]).abs().mean().item() * len(rows)
    model.train()
    return e_sum / len(pos), f_sum / len(pos)


if __name__ == "__main__":
    torch.manual_seed(61)
    model = PairPotential()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    held_out = clusters(32)
    for step in range(91):
        pos = clusters(16)
        e_ref, f_ref = reference(pos)
        e, f = model(pos, training=True)
        loss = 0.1 * nn.functional.mse_loss(e, e_ref) + nn.functional.mse_loss(f, f_ref)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 30 == 0:
            print("step %2d loss %.4f | energy MAE %.3f force MAE %.3f" % (step, loss.item(), *validate(model, held_out)))
