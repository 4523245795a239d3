import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 40
alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.05, STEPS), dim=0)


class Denoiser(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.time = nn.Embedding(STEPS, width)
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.last = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        h = self.first(x) + self.time(t)[:, :, None, None]
        return self.last(torch.nn.functional.silu(h))


def noised(x, t, noise):
    level = alpha_bar[t][:, None, None, None]
    return level.sqrt() * x + (1 - level).sqrt() * noise


def train(epochs=2, size=16):
    torch.manual_seed(0)
    pictures = torch.tanh(torch.randn(160, 1, 16, 1) * torch.randn(160, 1, 1, 16))
    loader = DataLoader(TensorDataset(pictures), batch_size=size, shuffle=True)
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        for (x,) in loader:
            t = torch.randint(0, STEPS, (len(x),))
            noise = torch.randn_like(x)
            loss = nn.functional.mse_loss(model(noised(x, t, noise), t), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


train()
