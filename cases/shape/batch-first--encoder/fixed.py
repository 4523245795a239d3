"""Which of five dances? Steps from a pressure mat, read by a small transformer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Dances(Dataset):
    """28 moments of 6 pressures; a dance is a rhythm and the side it leans to."""

    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.dance = torch.randint(0, 5, (count,), generator=draw)
        beat = torch.arange(28) * (0.4 + 0.35 * self.dance[:, None])
        sides = torch.linspace(0, 3, 6)
        phase = torch.rand(count, 1, 1, generator=draw)
        self.steps = torch.sin(beat[:, :, None] + sides + phase)
        self.steps += 0.2 * torch.randn(self.steps.shape, generator=draw)

    def __len__(self):
        return len(self.dance)

    def __getitem__(self, index):
        return self.steps[index], self.dance[index]


class DanceTransformer(nn.Module):
    def __init__(self, pressures=6, width=32, moments=28, dances=5):
        super().__init__()
        self.project = nn.Linear(pressures, width)
        self.moment = nn.Parameter(0.5 * torch.randn(moments, width))
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.classify = nn.Linear(width, dances)

    def forward(self, steps):
        read = self.encoder(self.project(steps) + self.moment)
        return self.classify(read.mean(dim=1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(steps).argmax(-1) == dance).sum().item() for steps, dance in loader)
    return right / len(loader.dataset)


def main():
    torch.manual_seed(5)
    train_loader = DataLoader(Dances(256, seed=1), batch_size=16, shuffle=True)
    valid_loader = DataLoader(Dances(64, seed=2), batch_size=16)
    model = DanceTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        model.train()
        for steps, dance in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(steps), dance)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch}: last loss {loss.item():.3f}, validation {accuracy(model, valid_loader):.2f}")


if __name__ == "__main__":
    main()
