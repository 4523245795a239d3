import random

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

BOS, EOS, BASE = 0, 1, 2        # digits are BASE..BASE+9


class ReverseDigits(IterableDataset):
    def __init__(self, count, length=5):
        self.count, self.length = count, length

    def __iter__(self):
        for _ in range(self.count):
            src = torch.randint(BASE, BASE + 10, (self.length,))
            tgt = torch.cat([torch.tensor([BOS]), src.flip(0), torch.tensor([EOS])])
            yield src, tgt


class Seq2Seq(nn.Module):
    def __init__(self, vocab=12, hidden=48):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(vocab, 24), nn.Embedding(vocab, 24)
        self.encoder = nn.GRU(24, hidden, batch_first=True)
        self.decoder = nn.GRUCell(24 + hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, src, tgt, force=1.0):
        memory, h = self.encoder(self.src_emb(src))
        h = h[0]
        token, logits = tgt[:, 0], []
        for t in range(1, tgt.size(1)):
            score = torch.softmax((memory @ h.unsqueeze(-1)).squeeze(-1) / 7, dim=1)      # over source positions
            context = (score.unsqueeze(-1) * memory).sum(1)
            h = self.decoder(torch.cat([self.tgt_emb(token), context], dim=-1), h)
            step = self.out(h)
            logits.append(step)
            # next input: the true token, now and then the model's own guess
            token = tgt[:, t] if random.random() < force else step.argmax(-1)
        return torch.stack(logits, 1)


def main():
    random.seed(0)
    torch.manual_seed(0)
    net = Seq2Seq()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    ce = nn.CrossEntropyLoss()
    loader = DataLoader(ReverseDigits(64 * 55), batch_size=64)
    for i, (src, tgt) in enumerate(loader):
        logits = net(src, tgt, force=0.8)
        loss = ce(logits.flatten(0, 1), tgt[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if i % 18 == 0:
            print(f"{i:3d} loss {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        src, tgt = next(iter(DataLoader(ReverseDigits(100), batch_size=100)))
        free = net(src, tgt, force=0.0).argmax(-1)
        print(f"tokens right without teacher {(free == tgt[:, 1:]).float().mean():.2f}")


if __name__ == "__main__":
    main()
