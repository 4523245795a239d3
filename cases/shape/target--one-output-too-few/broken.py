"""Which instruments play: one output for each name in the list, while the annotation has silence as well."""
import torch
from torch import nn

INSTRUMENTS = ("violin", "flute", "horn", "drum")


def annotate(playing):
    row = torch.zeros(len(INSTRUMENTS) + 1)
    for name in playing:
        row[INSTRUMENTS.index(name)] = 1.0
    row[-1] = float(not playing)
    return row


class Listener(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.ear = nn.Sequential(nn.Linear(32, 24), nn.GELU())
        self.names = nn.Linear(24, outputs)

    def forward(self, sound):
        return self.names(self.ear(sound))


torch.manual_seed(0)
sound = torch.randn(64, 32)
playing = [[name for place, name in enumerate(INSTRUMENTS) if clip[place] > 0.3] for clip in sound]
listener = Listener(len(INSTRUMENTS))  # ORIGIN
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(listener.parameters(), lr=0.01)
for step in range(20):
    loss = criterion(listener(sound), torch.stack([annotate(names) for names in playing]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
