"""Next-word model whose embedding rows learn at the same speed whether the word is rare or not."""
import torch
from torch import nn

CORPUS = (
    "the cat sat on the mat and the dog lay by the door while the rain fell on the roof "
    "and the wind blew through the trees until the cat and the dog went to sleep by the fire"
).split()
VOCAB = ["<unk>"] + sorted(set(CORPUS))
IDS = torch.tensor([VOCAB.index(w) for w in CORPUS])
WINDOW = 6


class WordLSTM(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.emb = nn.Embedding(len(VOCAB), dim)
        self.lstm = nn.LSTM(dim, 32, batch_first=True)
        self.out = nn.Linear(32, len(VOCAB))

    def forward(self, ids):
        h, _ = self.lstm(self.emb(ids))
        return self.out(h)


class FrequencyBalance:
    """Divides the gradient of each embedding row by how often the word is in the batch."""

    def __init__(self, weight):
        self.count = torch.ones(len(weight))
        weight.register_hook(self.rescale)

    def observe(self, ids):
        self.count = torch.bincount(ids.flatten(), minlength=len(VOCAB)).float()

    def rescale(self, grad):
        return grad / self.count.clamp(min=1).unsqueeze(1)


def windows(batch_size):
    start = torch.randint(0, len(IDS) - WINDOW, (batch_size,))
    chunk = IDS[start[:, None] + torch.arange(WINDOW + 1)]
    return chunk[:, :-1], chunk[:, 1:]


torch.manual_seed(14)
net = WordLSTM()
balance = FrequencyBalance(net.emb.weight)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(60):
    x, y = windows(8)
    balance.observe(x)
    loss = nn.functional.cross_entropy(net(x).transpose(1, 2), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 12 == 0:
        print(step, f"{loss.item():.4f}")
