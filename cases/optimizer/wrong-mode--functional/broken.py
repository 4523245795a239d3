import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(19)


class Tagger(nn.Module):
    def __init__(self, vocab=30, tags=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16)
        self.conv = nn.Conv1d(16, 32, 3, padding=1)
        self.out = nn.Linear(32, tags)

    def forward(self, ids):
        h = self.embed(ids).transpose(1, 2)
        h = F.relu(self.conv(h)).transpose(1, 2)
        h = F.dropout(h, p=0.5)  # ORIGIN
        return self.out(h)


lexicon = torch.randint(0, 4, (30,))


def make(n):
    ids = torch.randint(0, 30, (n, 12))
    prev = torch.roll(ids, 1, dims=1)
    tags = torch.where(prev % 5 == 0, (lexicon[ids] + 1) % 4, lexicon[ids])
    return ids, tags


train_ids, train_tags = make(320)
val_ids, val_tags = make(64)
tagger = Tagger()
opt = torch.optim.Adam(tagger.parameters(), lr=1e-2)

for epoch in range(4):
    tagger.train()
    order = torch.randperm(len(train_ids))
    for chunk in order.split(32):
        logits = tagger(train_ids[chunk])
        loss = F.cross_entropy(logits.flatten(0, 1), train_tags[chunk].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    tagger.eval()
    with torch.no_grad():
        acc = (tagger(val_ids).argmax(-1) == val_tags).float().mean()
    print(f"epoch {epoch}  last loss {loss.item():.3f}  val acc {acc.item():.3f}")
