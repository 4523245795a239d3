import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedEncoder(nn.Module):
    def __init__(self, n_in, n_hidden, n_layers):
        super().__init__()
        dims = [n_in] + [n_hidden] * n_layers
        self.values = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.gates = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))

    def forward(self, x, keep):
        for value, gate in zip(self.values, self.gates):
            g = torch.sigmoid(gate(x))
            x = g * torch.tanh(value(x))
            g = g * keep
            x = x + 0.1 * g
        return x


class Autoencoder(nn.Module):
    def __init__(self, n_in=12, n_hidden=6):
        super().__init__()
        self.encoder = GatedEncoder(n_in, n_hidden, n_layers=2)
        self.decoder = nn.Linear(n_hidden, n_in)

    def forward(self, x):
        keep = torch.bernoulli(torch.full((x.size(0), 1), 0.8))
        return self.decoder(self.encoder(x, keep))


def main():
    torch.manual_seed(5)
    basis = torch.randn(3, 12)
    data = torch.randn(160, 3) @ basis
    ae = Autoencoder()
    opt = torch.optim.Adam(ae.parameters(), lr=3e-3)
    for epoch in range(3):
        for batch in data[torch.randperm(160)].split(32):
            opt.zero_grad()
            loss = F.mse_loss(ae(batch), batch)
            loss.backward()
            opt.step()
        print("epoch %d: %.4f" % (epoch, loss.item()))


if __name__ == "__main__":
    main()
