"""Predict a molecule's solubility from its atoms: self-attention over a padded set."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MAX_ATOMS = 9


class Molecules(Dataset):
    def __init__(self, size, min_degree=1):
        g = torch.Generator().manual_seed(77)
        self.atoms = torch.randn(size, MAX_ATOMS, 5, generator=g)
        self.degree = torch.randint(1, 5, (size, MAX_ATOMS), generator=g)
        self.degree[85] = 0                             # a lone ion, no bonds
        self.min_degree = min_degree
        self.solubility = self.atoms.mean((1, 2)) * 3

    def __len__(self):
        return len(self.solubility)

    def __getitem__(self, i):
        bonded = self.degree[i] >= self.min_degree
        if not bonded.any():
            bonded = torch.ones_like(bonded)
        return self.atoms[i], ~bonded, self.solubility[i]


class SetTransformer(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Linear(5, dim)
        self.attn = nn.MultiheadAttention(dim, num_heads=2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.readout = nn.Linear(dim, 1)

    def forward(self, atoms, ignore):
        h = self.embed(atoms)
        mixed, _ = self.attn(h, h, h, key_padding_mask=ignore)
        h = self.norm(h + mixed)
        return self.readout(h.mean(dim=1)).squeeze(-1)


def main():
    torch.manual_seed(5)
    loader = DataLoader(Molecules(96), batch_size=12, shuffle=True, num_workers=2)
    net = SetTransformer()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    mse = nn.MSELoss()
    for epoch in range(2):
        for step, (atoms, ignore, target) in enumerate(loader):
            loss = mse(net(atoms, ignore), target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            print(epoch, step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
