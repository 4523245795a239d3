import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Sentiment(nn.Module):
    def __init__(self, words=100, dim=16, classes=4):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, classes)

    def forward(self, words):
        _, last = self.gru(self.embed(words))
        both = last.view(words.size(0), -1)  # ORIGIN
        return self.out(both)


torch.manual_seed(0)
words = torch.randint(0, 100, (320, 8))
labels = words[:, 0] % 2 * 2 + words[:, -1] % 2
model = Sentiment()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    for batch, wanted in DataLoader(TensorDataset(words, labels), batch_size=16, shuffle=True):
        loss = criterion(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
