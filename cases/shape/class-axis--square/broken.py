import torch
from torch import nn

TAGS = ["DET", "NOUN", "VERB", "ADJ", "ADV", "PREP", "CONJ", "PUNCT"]
WORDS_PER_TAG = 5
MAX_LEN = 8


class Tagger(nn.Module):
    def __init__(self, vocab, n_tags, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.score = nn.Linear(2 * dim, n_tags)

    def forward(self, words):
        out, _ = self.gru(self.embed(words))
        return self.score(out)  # (batch, words, tags)


def sentences(n):
    # a toy corpus: each word belongs to exactly one tag
    tags = torch.randint(0, len(TAGS), (n, MAX_LEN))
    words = tags * WORDS_PER_TAG + torch.randint(0, WORDS_PER_TAG, (n, MAX_LEN))
    return words, tags


torch.manual_seed(13)
tagger = Tagger(len(TAGS) * WORDS_PER_TAG, len(TAGS))
opt = torch.optim.Adam(tagger.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
for step in range(60):
    words, tags = sentences(32)
    logits = tagger(words)
    loss = criterion(logits, tags)  # ORIGIN
    opt.zero_grad()
    loss.backward()
    opt.step()
    if (step + 1) % 12 == 0:
        acc = (logits.argmax(-1) == tags).float().mean().item()
        print(f"step {step + 1} loss {loss.item():.4f} tag accuracy {acc:.3f}")
