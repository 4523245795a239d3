import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(3)

reviews = [
    ("good plot and good cast", 1),
    ("boring", 0),
    ("not good", 0),
    ("great fun", 1),
    ("the plot is a mess and the cast is bad", 0),
    ("fun cast great plot", 1),
]
words = sorted({w for text, _ in reviews for w in text.split()})
stoi = {w: i + 1 for i, w in enumerate(words)}  # 0 is padding


def encode(text):
    return [stoi[w] for w in text.split()]


class MeanPool(nn.Module):
    def __init__(self, n_words, dim=10):
        super().__init__()
        self.table = nn.Embedding(n_words + 1, dim, padding_idx=0)
        self.clf = nn.Linear(dim, 1)

    def forward(self, tokens):
        present = (tokens != 0).unsqueeze(-1)
        total = (self.table(tokens) * present).sum(1)
        return self.clf(total / present.sum(1)).squeeze(-1)


def make_batch(pairs):
    texts = [text for text, _ in pairs]
    tokens = pad_sequence([torch.tensor(encode(text)) for text in texts], batch_first=True)
    labels = torch.tensor([float(label) for _, label in pairs])
    return tokens, labels


net = MeanPool(len(words))
opt = torch.optim.Adagrad(net.parameters(), lr=0.1)
skipped = 0
for epoch in range(10):
    for pairs in (reviews[:3], reviews[3:]):
        try:
            tokens, labels = make_batch(pairs)
        except ValueError as err:
            skipped += 1
            print(f"epoch {epoch}: could not build batch ({err})")
            continue
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(tokens), labels)
        loss.backward()
        opt.step()
print("done,", skipped, "batches skipped")
