import torch
from torch import nn
from torch.distributions import Categorical

WORDS = ["kalimo", "tarino", "mirako", "lonati", "sakiro", "timora", "ralino", "komita", "nilaso", "rokati"]
CHARS = sorted(set("".join(WORDS)) | {"."})
ENC = {c: k for k, c in enumerate(CHARS)}


class CharModel(nn.Module):
    """next character from the previous two"""

    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Embedding(len(CHARS), dim)
        self.net = nn.Sequential(nn.Linear(2 * dim, 48), nn.Tanh(), nn.Linear(48, len(CHARS)))

    def forward(self, context):
        return Categorical(logits=self.net(self.embed(context).flatten(1)))


def windows(words):
    ctx, nxt = [], []
    for w in words:
        s = ".." + w + "."
        for k in range(2, len(s)):
            ctx.append([ENC[s[k - 2]], ENC[s[k - 1]]])
            nxt.append(ENC[s[k]])
    return torch.tensor(ctx), torch.tensor(nxt)


class Trainer:
    def __init__(self, model, lr=0.01):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def objective(self, ctx, nxt):
        dist = self.model(ctx)
        return -dist.log_prob(nxt).mean()

    def fit(self, ctx, nxt, epochs=8, batch=14):
        for epoch in range(epochs):
            losses = []
            for idx in torch.randperm(len(ctx)).split(batch):
                loss = self.objective(ctx[idx], nxt[idx])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
            with torch.no_grad():
                right = (self.model(ctx).logits.argmax(1) == nxt).float().mean().item()
            print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.3f} next-char accuracy {right:.2f}")


torch.manual_seed(2)
Trainer(CharModel()).fit(*windows(WORDS))
