import torch
import torch.nn.functional as F
from torch import nn, optim


class TiedRNNLM(nn.Module):
    """Input embedding and output layer are one tensor; a linear autoencoder style tie (W and W.T) sits below it too."""

    def __init__(self, vocab=15, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        nn.init.uniform_(self.embed.weight, -0.2, 0.2)
        self.squeeze = nn.Parameter(torch.empty(16, dim))
        nn.init.orthogonal_(self.squeeze)
        self.rnn = nn.GRU(16, 16)
        self.decoder = nn.Linear(dim, vocab)
        self.decoder.weight = self.embed.weight

    def forward(self, tokens, h=None):
        x = F.linear(self.embed(tokens), self.squeeze)          # dim -> 16
        y, h = self.rnn(x, h)
        return self.decoder(F.linear(y, self.squeeze.t())), h   # 16 -> dim with the same matrix


def song(length=2000, vocab=15):
    g = torch.Generator().manual_seed(5)
    jump = torch.tensor([1, 3, 4])
    notes, at = [], 0
    for _ in range(length):
        at = (at + int(jump[torch.randint(3, (1,), generator=g)])) % vocab
        notes.append(at)
    return torch.tensor(notes)


def main():
    torch.manual_seed(1)
    model = TiedRNNLM()
    names = [n for n, _ in model.named_parameters()]            # the tie shows up once
    opt = optim.Adam(model.parameters(), lr=1e-2)
    data = song().view(80, 25).t().contiguous()                 # (time, streams)
    for epoch in range(40):
        cols = torch.randperm(80)[:40]
        x, y = data[:-1, cols], data[1:, cols]
        logits, _ = model(x)
        loss = F.cross_entropy(logits.reshape(-1, 15), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 10 == 0 or epoch == 39:
            print(f"epoch {epoch:2d} perplexity {loss.exp().item():.2f}")
    print(len(names), "parameters; still tied:", model.decoder.weight is model.embed.weight)


if __name__ == "__main__":
    main()
