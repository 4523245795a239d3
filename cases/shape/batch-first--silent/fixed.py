import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class MotionWindows(Dataset):
    """windows of 16 readings from 6 sensor channels; the class is the kind of movement"""

    def __init__(self, n=480, seed=0):
        rng = np.random.default_rng(seed)
        self.label = rng.integers(0, 3, n)
        t = np.arange(16)
        phase = rng.uniform(0, 2 * np.pi, (n, 1, 6))
        freq = (0.3 + 0.5 * self.label)[:, None, None]
        self.window = np.sin(freq * t[None, :, None] + phase) + 0.1 * rng.standard_normal((n, 16, 6))

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return torch.tensor(self.window[i], dtype=torch.float32), int(self.label[i])


class ActivityLSTM(nn.Module):
    def __init__(self, channels=6, hidden=32, classes=3):
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1])


torch.manual_seed(0)
ds = MotionWindows()
train_ds, val_ds = random_split(ds, [400, 80])
train_dl = DataLoader(train_ds, batch_size=20, shuffle=True)
val_dl = DataLoader(val_ds, batch_size=20)

model = ActivityLSTM()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
ce = nn.CrossEntropyLoss()
for epoch in range(4):
    model.train()
    running = 0.0
    for x, y in train_dl:
        loss = ce(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in val_dl)
    print(f"epoch {epoch} train loss {running / len(train_dl):.3f} val acc {hits / len(val_ds):.3f}")
