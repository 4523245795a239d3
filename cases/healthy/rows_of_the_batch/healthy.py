"""A memory of eight slots beside batches of eight and fewer rows; tokens are expanded to the batch."""
import torch
from torch import nn

SLOTS = 8


class Reader(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.embed = nn.Linear(6, width)
        self.query = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.slots = nn.Parameter(torch.randn(SLOTS, width) * 0.1)
        self.head = nn.Linear(2 * width, 3)

    def forward(self, x):
        tokens = self.embed(x)
        query = self.query.expand(len(x), -1, -1)
        seen = torch.cat([query, tokens], dim=1).mean(1)
        share = (seen @ self.slots.T).softmax(-1)
        usage = torch.zeros(SLOTS).index_add(0, share.argmax(1), torch.ones(len(x)))
        return self.head(torch.cat([seen, share @ self.slots], dim=1)), usage


torch.manual_seed(4)
net = Reader()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
x, y = torch.randn(60, 5, 6), torch.randint(0, 3, (60,))
for epoch in range(3):
    used = torch.zeros(SLOTS)
    for rows in torch.randperm(60).split(SLOTS):
        logits, usage = net(x[rows])
        loss = nn.functional.cross_entropy(logits, y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        used += usage
    print(epoch, round(loss.item(), 3), int(used.sum()))
