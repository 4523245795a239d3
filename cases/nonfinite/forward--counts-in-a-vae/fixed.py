"""VAE on a sensor table; one column is in raw counts."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


class VAE(nn.Module):
    def __init__(self, d_in=10, d_hid=64, d_z=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d_in, d_hid), nn.ReLU())
        self.mu = nn.Linear(d_hid, d_z)
        self.logvar = nn.Linear(d_hid, d_z)
        self.dec = nn.Sequential(nn.Linear(d_z, d_hid), nn.ReLU(), nn.Linear(d_hid, d_in))

    def encode(self, x):
        h = self.enc(x)
        return self.mu(h), self.logvar(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + std * torch.randn_like(std)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterize(mu, logvar)
        return self.dec(z), mu, logvar


def elbo(recon, x, mu, logvar):
    rec = F.mse_loss(recon, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (rec + kl) / x.size(0)


def read_table(n=512):
    table = torch.randn(n, 10)
    table[:, 7] = torch.randint(0, 4000, (n,)).float() / 4000
    return table


data = read_table()
model = VAE()
opt = torch.optim.SGD(model.parameters(), lr=1e-5)
n_batches = len(data) // 64
for epoch in range(1, 4):
    perm = torch.randperm(len(data))
    running = 0.0
    for b in range(n_batches):
        x = data[perm[b * 64:(b + 1) * 64]]
        opt.zero_grad()
        out = model(x)
        loss = elbo(out[0], x, *out[1:])
        loss.backward()
        opt.step()
        running += loss.item()
    print(f"====> Epoch {epoch} average loss {running / n_batches:.3f}")
