"""BIO tagging with a linear-chain CRF; forbidden transitions score -inf."""
import torch
from torch import nn

O, B, I = 0, 1, 2
FORBIDDEN = [(O, I)]


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.trans = nn.Parameter(0.1 * torch.randn(tags, tags))
        self.start = nn.Parameter(torch.zeros(tags))
        banned = torch.zeros(tags, tags, dtype=torch.bool)
        for a, b in FORBIDDEN:
            banned[a, b] = True
        self.register_buffer("banned", banned)
        self.register_buffer("no_start", torch.tensor([False, False, True]))

    def scores(self):
        return self.trans.masked_fill(self.banned, float("-inf")), self.start.masked_fill(self.no_start, float("-inf"))

    def log_partition(self, emit):
        trans, start = self.scores()
        alpha = start + emit[:, 0]
        for t in range(1, emit.shape[1]):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + trans, dim=1) + emit[:, t]
        return torch.logsumexp(alpha, dim=1)

    def path_score(self, emit, tags):
        trans, start = self.scores()
        score = start[tags[:, 0]] + emit.gather(2, tags.unsqueeze(2)).squeeze(2).sum(1)
        return score + trans[tags[:, :-1], tags[:, 1:]].sum(1)

    @torch.no_grad()
    def viterbi(self, emit):
        trans, start = self.scores()
        best, back = start + emit[:, 0], []
        for t in range(1, emit.shape[1]):
            best, arg = (best.unsqueeze(2) + trans).max(1)
            best = best + emit[:, t]
            back.append(arg)
        path = [best.argmax(1)]
        for arg in reversed(back):
            path.append(arg.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        return torch.stack(path[::-1], 1)


def corpus(n, length=9):
    """Words below 5 open a name, the same parity may continue it."""
    words = torch.randint(0, 20, (n, length))
    tags = torch.full((n, length), O)
    tags[words < 5] = B
    for t in range(1, length):
        follows = (tags[:, t - 1] != O) & (words[:, t] >= 15)
        tags[follows, t] = I
    return words, tags


torch.manual_seed(92)
emitter, crf = nn.Embedding(20, 3), CRF(3)
opt = torch.optim.Adam([*emitter.parameters(), *crf.parameters()], lr=0.05)
for step in range(61):
    words, tags = corpus(32)
    emit = emitter(words)
    loss = (crf.log_partition(emit) - crf.path_score(emit, tags)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 15 == 0:
        print(f"step {step} nll {loss.item():.4f}")
words, tags = corpus(100)
print("tags right", (crf.viterbi(emitter(words)) == tags).float().mean().item())
