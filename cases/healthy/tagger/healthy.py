"""BiGRU tagger over sentences of 1 to 9 tokens; padding is packed away and ignored by the loss."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD_WORD, PAD_TAG = 0, -100
VOCAB, TAGS = 21, 3


class Sentences(Dataset):
    """A token is tagged 2 after an even token, else 1 if it is odd, else 0."""

    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [[rng.randrange(1, VOCAB) for _ in range(rng.randint(1, 9))] for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        words = self.rows[i]
        tags = [2 if k and words[k - 1] % 2 == 0 else w % 2 for k, w in enumerate(words)]
        return torch.tensor(words), torch.tensor(tags)


def collate(samples):
    words, tags = zip(*samples)
    return (
        pad_sequence(words, batch_first=True, padding_value=PAD_WORD),
        torch.tensor([len(w) for w in words]),
        pad_sequence(tags, batch_first=True, padding_value=PAD_TAG),
    )


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16, padding_idx=PAD_WORD)
        self.rnn = nn.GRU(16, 16, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(32, TAGS)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(self.drop(states))


def epoch(model, loader, opt=None):
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_TAG)
    model.train(opt is not None)
    loss_sum = hits = tokens = 0
    with torch.set_grad_enabled(opt is not None):
        for words, lengths, tags in loader:
            logits = model(words, lengths)                      # (B, T, C)
            loss = criterion(logits.transpose(1, 2), tags)      # class axis second
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            real = tags != PAD_TAG
            hits += (logits.argmax(-1)[real] == tags[real]).sum().item()
            tokens += int(real.sum())
            loss_sum += loss.item() * int(real.sum())
    return loss_sum / tokens, hits / tokens


torch.manual_seed(40)
train = DataLoader(Sentences(200, seed=1), batch_size=16, shuffle=True, collate_fn=collate)
valid = DataLoader(Sentences(60, seed=2), batch_size=16, collate_fn=collate)
model = Tagger()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for e in range(4):
    (tl, ta), (vl, va) = epoch(model, train, opt), epoch(model, valid)
    print(f"epoch {e}: train {tl:.3f}/{ta:.2f}  valid {vl:.3f}/{va:.2f}")
