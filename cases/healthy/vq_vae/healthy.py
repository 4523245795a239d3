"""Vector-quantised autoencoder of short waveforms (van den Oord et al. 2017)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Quantiser(nn.Module):
    def __init__(self, codes, dim, beta=0.25):
        super().__init__()
        self.book = nn.Embedding(codes, dim)
        nn.init.uniform_(self.book.weight, -1.0, 1.0)
        self.beta = beta

    def forward(self, z):                                   # z: (B, D, T)
        flat = z.transpose(1, 2).reshape(-1, z.size(1))     # (B*T, D)
        dist = (flat[:, None, :] - self.book.weight[None, :, :]).square().sum(-1)
        idx = dist.argmin(1)
        q = self.book(idx).view(z.size(0), z.size(2), -1).transpose(1, 2)
        loss = F.mse_loss(q, z.detach()) + self.beta * F.mse_loss(z, q.detach())
        # straight-through: the decoder's gradient goes to the encoder as if nothing had been rounded
        return z + (q - z).detach(), loss, idx


class VQVAE(nn.Module):
    def __init__(self, dim=8, codes=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv1d(1, 16, 4, 2, 1), nn.ELU(), nn.Conv1d(16, dim, 4, 2, 1))
        self.vq = Quantiser(codes, dim)
        self.decode = nn.Sequential(nn.ConvTranspose1d(dim, 16, 4, 2, 1), nn.ELU(), nn.ConvTranspose1d(16, 1, 4, 2, 1))

    def forward(self, x):
        z, vq_loss, idx = self.vq(self.encode(x))
        return self.decode(z), vq_loss, idx


def waves(n, length=32):
    t = torch.linspace(0, 2 * math.pi, length)
    freq = torch.randint(1, 4, (n, 1)).float()
    phase = torch.rand(n, 1) * 2 * math.pi
    return torch.sin(freq * t + phase).unsqueeze(1)


def main():
    torch.manual_seed(3)
    net = VQVAE()
    optim = torch.optim.Adam(net.parameters(), lr=4e-3)
    for it in range(121):
        x = waves(32)
        out, vq_loss, idx = net(x)
        loss = F.mse_loss(out, x) + vq_loss
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        if it % 40 == 0:
            print(f"{it:4d} loss {loss.item():.4f}  codes in use {idx.unique().numel()}")


if __name__ == "__main__":
    main()
