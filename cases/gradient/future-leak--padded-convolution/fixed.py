import torch
from torch import nn

NOTES, BARS = 20, 28


def melodies(count):
    """Walks over a scale, mostly by step and sometimes by a leap."""
    moves = torch.randint(-2, 3, (count, BARS + 1))
    leaps = (torch.rand(count, BARS + 1) < 0.15) * torch.randint(3, 8, (count, BARS + 1))
    return (moves + leaps).cumsum(1) % NOTES


class Composer(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.notes = nn.Embedding(NOTES, width)
        self.near = nn.Conv1d(width, width, kernel_size=5)
        self.even = nn.BatchNorm1d(width)
        self.score = nn.Sequential(nn.Dropout(0.1), nn.Conv1d(width, NOTES, kernel_size=1))

    def forward(self, melody):
        h = self.notes(melody).permute(0, 2, 1)
        return self.score(h + torch.relu(self.even(self.near(nn.functional.pad(h, (4, 0))))))


torch.manual_seed(21)
songs = melodies(400)
composer = Composer()
optimizer = torch.optim.Adam(composer.parameters(), lr=4e-3)
for epoch in range(2):
    right = 0.0
    for rows in torch.randperm(len(songs)).split(25):
        heard, following = songs[rows, :-1], songs[rows, 1:]
        loss = nn.functional.cross_entropy(composer(heard), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            # a training metric, after the update and with dropout on
            right += (composer(heard).argmax(1) == following).float().mean().item()
    print(f"epoch {epoch}: {loss.item():.3f} a note, {right / 16:.0%} right")
