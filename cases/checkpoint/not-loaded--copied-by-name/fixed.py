import io

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(77)


class Denoiser(nn.Module):
    def __init__(self, channels=10):
        super().__init__()
        self.inp = nn.Conv1d(1, channels, 5, padding=2)
        self.mid = nn.Conv1d(channels, channels, 5, padding=2)
        self.out = nn.Conv1d(channels, 1, 5, padding=2)

    def forward(self, x):
        return x + self.out(F.silu(self.mid(F.silu(self.inp(x)))))

    def copy_from(self, weights):
        """Take what is there; later versions may have more layers."""
        for name, parameter in self.named_parameters():
            if name in weights:
                parameter.data.copy_(weights[name])


def train(net, noise, steps):
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(steps):
        clean = torch.sin(torch.linspace(0, 6, 40) + 6 * torch.rand(16, 1, 1))
        loss = F.mse_loss(net(clean + noise * torch.randn_like(clean)), clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"noise {noise}: {loss.item():.4f}")
    return net


file = io.BytesIO()
torch.save(train(nn.DataParallel(Denoiser()), 0.3, 50).state_dict(), file)
file.seek(0)

net = Denoiser()
net.copy_from({name.removeprefix("module."): weight for name, weight in torch.load(file).items()})
train(net, 0.6, 30)
