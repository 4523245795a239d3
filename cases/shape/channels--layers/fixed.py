from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    sample_rate: int = 800
    batch: int = 12
    steps: int = 15
    lr: float = 1e-2
    keywords: int = 6
    seed: int = 1234


class KeywordSpotter(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.frontend = nn.Conv1d(1, 16, kernel_size=25, stride=5)
        self.norm1 = nn.GroupNorm(4, 16)
        self.middle = nn.Conv1d(16, 64, kernel_size=9, stride=3)
        self.norm2 = nn.GroupNorm(8, 64)
        self.head = nn.Linear(64, cfg.keywords)

    def forward(self, wave):
        z = torch.relu(self.norm1(self.frontend(wave)))
        z = torch.relu(self.norm2(self.middle(z)))
        return self.head(z.amax(dim=-1))


def synth(cfg):
    word = torch.randint(cfg.keywords, (cfg.batch,))
    t = torch.arange(cfg.sample_rate) / cfg.sample_rate
    pitch = 10.0 + 15.0 * word[:, None]
    wave = torch.sin(2 * torch.pi * pitch * t) + 0.1 * torch.randn(cfg.batch, cfg.sample_rate)
    return wave.unsqueeze(1), word


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    model = KeywordSpotter(cfg)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
    for step in range(cfg.steps):
        wave, word = synth(cfg)
        loss = nn.functional.cross_entropy(model(wave), word)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("final loss", loss.item())


main()
