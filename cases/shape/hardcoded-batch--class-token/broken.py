"""Leaf photographs in patches: a class token is put in front of every picture's patches."""
import torch
from torch import nn

BATCH = 24


class LeafViT(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.out = nn.Linear(width, 5)

    def forward(self, photo):
        seq = self.patch(photo).flatten(2).transpose(1, 2)
        front = self.cls.repeat(BATCH, 1, 1)  # ORIGIN
        seq = torch.cat((front, seq), dim=1)
        mixed, _ = self.mix(seq, seq, seq, need_weights=False)
        return self.out(mixed[:, 0])


torch.manual_seed(3)
photos, species = torch.randn(64, 3, 12, 12), torch.randint(0, 5, (64,))
net = LeafViT()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(2):
    for rows in torch.randperm(len(photos)).split(BATCH):
        loss = nn.functional.cross_entropy(net(photos[rows]), species[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 3))
