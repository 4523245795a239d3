import torch
from torch import nn
from torch.nn import functional as F


class Retriever(nn.Module):
    """Bags of words in, nearest answer out."""

    def __init__(self, words=80, dim=16):
        super().__init__()
        self.ask = nn.EmbeddingBag(words, dim)
        self.answer = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, dim))

    def forward(self, bags, answers):
        return F.normalize(self.ask(bags), dim=-1) @ F.normalize(self.answer(answers), dim=-1).T * 8


def pairs(topics, n, gen):
    topic = torch.randperm(len(topics), generator=gen)[:n]
    spread = torch.randint(4, (n, 6), generator=gen)
    return topic[:, None] * 4 + spread, topics[topic] + 0.2 * torch.randn(n, 12, generator=gen)


class Loop:
    def __init__(self, model):
        self.model = model
        self.words = torch.optim.SGD(model.ask.parameters(), lr=0.5)
        self.texts = torch.optim.AdamW(model.answer.parameters(), lr=3e-3)

    def update(self, bags, answers):
        scores = self.model(bags, answers)
        loss = F.cross_entropy(scores, torch.arange(len(bags)))
        loss.backward()
        self.words.step()
        self.texts.step()
        self.texts.zero_grad()  # ORIGIN
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(9)
    topics = torch.randn(20, 12, generator=gen)
    loop = Loop(Retriever())
    for turn in range(50):
        loss = loop.update(*pairs(topics, 12, gen))
        if turn % 10 == 0:
            print(turn, round(loss, 3))
