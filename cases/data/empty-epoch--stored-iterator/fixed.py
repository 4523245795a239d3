"""Seal calls against boat noise, a trainer class with its loop in a method."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Hydrophone(Dataset):
    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        self.is_call = torch.randint(0, 2, (n,), generator=gen)
        t = torch.linspace(0, 6, 32)
        pitch = 2.0 + self.is_call.float()[:, None] * 1.5
        self.sound = torch.sin(pitch * t) + 0.5 * torch.randn(n, 32, generator=gen)

    def __len__(self):
        return len(self.is_call)

    def __getitem__(self, i):
        return self.sound[i], self.is_call[i]


@dataclass
class Settings:
    epochs: int = 5
    batch_size: int = 16
    lr: float = 3e-3


class Trainer:
    def __init__(self, settings, train_set, test_set):
        self.settings = settings
        self.batches = DataLoader(train_set, settings.batch_size, shuffle=True)
        self.test_loader = DataLoader(test_set, 64)
        self.model = nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.lr)
        self.criterion = nn.CrossEntropyLoss()

    def one_epoch(self):
        self.model.train()
        for sound, is_call in self.batches:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(sound), is_call)
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def test(self):
        self.model.eval()
        right = sum((self.model(s).argmax(1) == c).sum().item() for s, c in self.test_loader)
        return right / len(self.test_loader.dataset)

    def run(self):
        for epoch in range(self.settings.epochs):
            self.one_epoch()
            print(f"epoch {epoch}: accuracy {self.test():.3f}")


torch.manual_seed(1)
Trainer(Settings(), Hydrophone(320, 1), Hydrophone(128, 2)).run()
