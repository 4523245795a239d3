import torch
import torch.nn as nn

START, END, VOCAB = 10, 11, 12


class Translator(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.reader = nn.GRU(dim, dim, batch_first=True)
        self.writer = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, source, answer):
        _, state = self.reader(self.embed(source))
        written, _ = self.writer(self.embed(answer), state)
        return self.out(written)


def sorting(n=32):
    source = torch.randint(0, 10, (n, 6))
    ends = torch.full((n, 1), START), torch.full((n, 1), END)
    return source, torch.cat([ends[0], source.sort(1).values, ends[1]], 1)


torch.manual_seed(0)
model = Translator()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(40):
    source, target = sorting()
    scores = model(source, target[:, 1:])  # ORIGIN
    loss = criterion(scores.reshape(-1, VOCAB), target[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step + 1, round(loss.item(), 4))
