"""Character GRU, sequences get longer as training goes on."""
import torch
from torch import nn

VOCAB = 10
CURRICULUM = [(8, 6), (16, 6), (32, 6), (128, 6)]      # (length, steps)


class CharGRU(nn.Module):
    def __init__(self, dim=16, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, VOCAB)

    def forward(self, tokens):
        states, _ = self.gru(self.embed(tokens))
        return self.out(states).softmax(dim=-1)


def corpus(length, batch, g):
    start = torch.randint(VOCAB, (batch, 1), generator=g)
    stride = torch.randint(1, 4, (batch, length + 1), generator=g).cumsum(1)
    return (start + stride) % VOCAB


def sequence_nll(probs, targets):
    """Negative log-likelihood of each whole sequence, per token."""
    per_token = probs.gather(2, targets.unsqueeze(-1)).squeeze(-1)
    likelihood = per_token.prod(dim=1)
    nll = -torch.log(likelihood)  # ORIGIN
    return nll.mean() / targets.shape[1]


def main():
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(8)
    model = CharGRU()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    step = 0
    for length, n_steps in CURRICULUM:
        for _ in range(n_steps):
            seq = corpus(length, 12, g)
            probs = model(seq[:, :-1])
            loss = sequence_nll(probs, seq[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 3 == 0:
                print(f"[{step}] T={length} nll/token {loss.item():.3f}")
            step += 1


main()
