"""The confidence head is Sequential(Linear, Sigmoid) for users; the loss takes the Linear's logits by index."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MatcherWithConfidence(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(9, d), nn.GELU(), nn.LayerNorm(d))
        self.token = nn.Sequential(nn.Linear(d, 1), nn.Sigmoid())
        self.classes = nn.Sequential(nn.Linear(d, 3), nn.Softmax(dim=-1))

    def forward(self, x):
        h = self.encoder(x)
        return self.token(h), self.classes(h)

    def loss(self, x, good, kind):
        h = self.encoder(x)
        logit = self.token[0](h).squeeze(-1)
        score = self.classes[0](h)
        return (
            nn.functional.binary_cross_entropy_with_logits(logit, good)
            + nn.functional.cross_entropy(score, kind)
        )


class Fit:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)

    def epoch(self, loader):
        self.model.train()
        out = []
        for batch in loader:
            loss = self.model.loss(*batch)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            out.append(loss.item())
        return sum(out) / len(out)

    @torch.no_grad()
    def score(self, x, good, kind):
        self.model.eval()
        conf, cls = self.model(x)
        # keep only confident matches
        sure = (conf.squeeze(-1) - 0.5).abs() > 0.2
        return ((conf.squeeze(-1) > 0.5).float() == good)[sure].float().mean().item(), (cls.argmax(-1) == kind).float().mean().item()


def dataset(n):
    x = torch.randn(n, 9)
    return x, (x[:, :3].sum(1) > 0).float(), x[:, 3:6].argmax(1)


torch.manual_seed(5)
fit = Fit(MatcherWithConfidence(), 5e-3)
loader = DataLoader(TensorDataset(*dataset(320)), batch_size=32, shuffle=True)
for e in range(8):
    mean = fit.epoch(loader)
    if e % 2 == 1:
        print("epoch", e, "loss", round(mean, 4))
print("confidence / class accuracy: %.2f / %.2f" % fit.score(*dataset(200)))
