import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 14


def sample_chain(n, length, vocab, generator):
    """Text stand-in: a Markov chain that never repeats a symbol twice in a row."""
    logits = 2.0 * torch.randn(vocab, vocab, generator=generator)
    logits.fill_diagonal_(float("-inf"))
    table = logits.softmax(dim=1)
    ids = [torch.randint(0, vocab, (n,), generator=generator)]
    for _ in range(length - 1):
        ids.append(torch.multinomial(table[ids[-1]], 1, generator=generator).squeeze(1))
    return torch.stack(ids, dim=1)


class CharRNN(nn.Module):
    def __init__(self, vocab, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.to_vocab = nn.Linear(dim, vocab)

    def forward(self, ids):
        out, _ = self.gru(self.embed(ids))
        return self.to_vocab(out)


def batches(corpus, size, epochs):
    for _ in range(epochs):
        for rows in torch.randperm(len(corpus)).split(size):
            block = corpus[rows]
            inputs = block[:, :-1]
            labels = block[:, 1:].clone()
            yield inputs, labels


gen = torch.Generator().manual_seed(0)
torch.manual_seed(0)
corpus = sample_chain(256, 25, VOCAB, gen)
lm = CharRNN(VOCAB)
opt = torch.optim.Adam(lm.parameters(), lr=1e-2)

for step, (inputs, labels) in enumerate(batches(corpus, 32, 6)):
    logits = lm(inputs)
    loss = F.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    if step % 8 == 0 or step == 47:
        print(f"step {step} loss {loss.item():.4f} ppl {loss.exp().item():.2f}")
