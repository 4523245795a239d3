import torch
import torch.nn as nn


class GestureNet(nn.Module):
    def __init__(self, n_channels=6, n_units=20, n_gestures=4):
        super().__init__()
        self.lstm = nn.LSTM(input_size=n_channels, hidden_size=n_units, batch_first=True)
        self.dropout = nn.Dropout(p=0.3)
        self.fc = nn.Linear(n_units, n_gestures)

    def forward(self, x):
        out, _ = self.lstm(x)
        out = self.dropout(out)
        return self.fc(out[:, -1])


class GestureSampler(torch.utils.data.Sampler):
    """Draws every gesture equally often."""

    def __init__(self, labels, per_gesture):
        self.pools = [torch.nonzero(labels == g).flatten() for g in labels.unique()]
        self.per_gesture = per_gesture

    def __len__(self):
        return self.per_gesture * len(self.pools)

    def __iter__(self):
        for _ in range(self.per_gesture):
            for pool in self.pools:
                yield pool[torch.randint(len(pool), ())].item()


torch.manual_seed(77)
labels = torch.randint(0, 4, (120,))
recordings = torch.randn(120, 40, 6) * 0.2 + labels.view(-1, 1, 1).float()

dataset = torch.utils.data.TensorDataset(recordings, labels)
loader = torch.utils.data.DataLoader(dataset, batch_size=20, sampler=GestureSampler(labels, 25))

model = GestureNet()
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)

for epoch in range(3):
    model.train()
    for seq, label in loader:
        optimizer.zero_grad()
        loss = criterion(model(seq), label)
        loss.backward()
        optimizer.step()
    print("epoch:", epoch, "loss:", loss.item())
