import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, d_in, d_hidden):
        super().__init__()
        self.lin1 = nn.Linear(d_in, d_hidden)
        self.lin2 = nn.Linear(d_hidden, d_hidden)
        self.history = []

    def forward(self, x):
        h = torch.relu(self.lin1(x))
        h = torch.relu(self.lin2(h))
        self.history.append(h)  # ORIGIN
        return h


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(16, 256)
        self.head = nn.Linear(256, 1)

    def forward(self, x):
        return self.head(self.encoder(x))


def train(steps=100):
    torch.manual_seed(3)
    w = torch.randn(16, 1) / 4
    model = Regressor()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(256, 16)
        y = torch.sin(2 * x @ w)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"{step:4d} {loss.item():.4f}")
    print("activation spread:", [round(h.std().item(), 3) for h in model.encoder.history[::25]])


train()
