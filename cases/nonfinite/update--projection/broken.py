"""Topics of short texts: after each step the topics are thinned out and brought back to length one."""
import torch
from torch import nn


class Topics(nn.Module):
    def __init__(self, words=12, topics=9):
        super().__init__()
        self.topics = nn.Parameter(nn.functional.normalize(torch.rand(topics, words), dim=1))
        self.assign = nn.Linear(words, topics)

    def forward(self, counts):
        return torch.relu(self.assign(counts)) @ self.topics


@torch.no_grad()
def thin_out(weight, by):
    kept = weight.sign() * (weight.abs() - by).clamp(min=0)
    length = kept.norm(dim=1, keepdim=True)
    weight.copy_(kept / length)  # ORIGIN


class Run:
    def __init__(self, texts=40):
        torch.manual_seed(2)
        self.model = Topics()
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.texts = texts

    def threshold(self, step):
        return 0.001 + 0.005 * max(step - 600, 0)

    def go(self, steps):
        for step in range(steps):
            counts = torch.rand(self.texts, 12)
            loss = nn.functional.mse_loss(self.model(counts), counts)
            self.sgd.zero_grad()
            loss.backward()
            self.sgd.step()
            thin_out(self.model.topics, self.threshold(step))
            if step % 100 == 0:
                print(f"{step} {loss.item():.4f}")


Run().go(850)
