import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Windows of recordings that are long enough for one."""

    def __init__(self, recordings, window):
        self.window = window
        self.recordings = []
        for recording in recordings:
            if len(recording) > 4096:  # ORIGIN
                self.recordings.append(recording)

    def __len__(self):
        return len(self.recordings)

    def __getitem__(self, index):
        return self.recordings[index][: self.window], (self.recordings[index].mean() > 0).float()


torch.manual_seed(11)
recordings = [torch.randn(600) + (0.5 if each % 2 else -0.5) for each in range(48)]
loader = DataLoader(Clips(recordings, window=512), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(512, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _epoch in range(2):
    for clip, loud in loader:
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(clip), loud).backward()
        optimizer.step()
