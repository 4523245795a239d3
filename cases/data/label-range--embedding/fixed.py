from functools import partial

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence, pack_padded_sequence
from torch.utils.data import DataLoader

COMMANDS = [
    ("turn the light on", "light"), ("light off please", "light"),
    ("play some jazz", "music"), ("stop the music now", "music"),
    ("play the next song", "music"), ("dim the light", "light"),
    ("what time is it", "clock"), ("set an alarm for six", "clock"),
] * 4
INTENTS = ["clock", "light", "music"]


def build_vocab(pairs):
    vocab = {"<pad>": 0}
    for text, _ in pairs:
        for word in text.split():
            vocab.setdefault(word, len(vocab))
    return vocab


def collate(pairs, vocab):
    seqs = [torch.tensor([vocab[w] for w in text.split()]) for text, _ in pairs]
    lengths = torch.tensor([len(s) for s in seqs])
    ids = pad_sequence(seqs, batch_first=True, padding_value=vocab["<pad>"])
    return ids, lengths, torch.tensor([INTENTS.index(intent) for _, intent in pairs])


class IntentNet(nn.Module):
    def __init__(self, vocab_size, dim=12, hidden=16):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True)
        self.cls = nn.Linear(hidden, len(INTENTS))

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.cls(h[-1])


torch.manual_seed(0)
vocab = build_vocab(COMMANDS)
loader = DataLoader(COMMANDS, batch_size=8, shuffle=True, collate_fn=partial(collate, vocab=vocab))
net = IntentNet(len(vocab))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(3):
    for ids, lengths, intent in loader:
        loss = nn.functional.cross_entropy(net(ids, lengths), intent)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
