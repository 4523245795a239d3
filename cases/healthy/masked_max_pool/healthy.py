"""Sentence classifier: max over words, padding filled with -inf before the maximum."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WORDS = 40


def sentences(n, seed):
    """Positive when the rare word 7 appears anywhere."""
    g = torch.Generator().manual_seed(seed)
    rows = []
    for k in range(n):
        ids = torch.randint(10, WORDS, (int(torch.randint(1, 14, (), generator=g)),), generator=g)
        if k % 2:
            ids[int(torch.randint(len(ids), (), generator=g))] = 7
        rows.append((ids, k % 2))
    return rows


def collate(rows):
    ids = pad_sequence([r for r, _ in rows], batch_first=True, padding_value=0)
    return ids, torch.tensor([float(label) for _, label in rows])


class MaxPoolNet(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.emb = nn.Embedding(WORDS, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, 24, 3, padding=1)
        self.out = nn.Linear(24, 1)

    def forward(self, ids):
        h = self.conv(self.emb(ids).transpose(1, 2))
        h = h.masked_fill((ids == 0).unsqueeze(1), float("-inf"))
        return self.out(h.max(dim=2).values).squeeze(1)


torch.manual_seed(65)
net = MaxPoolNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
loader = DataLoader(sentences(240, 1), batch_size=24, shuffle=True, collate_fn=collate, generator=torch.Generator().manual_seed(9))
for epoch in range(6):
    for ids, label in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(net(ids), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
with torch.no_grad():
    ids, label = collate(sentences(100, 2))
    print("accuracy", ((net(ids) > 0).float() == label).float().mean().item())
