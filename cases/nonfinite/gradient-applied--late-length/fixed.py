"""Which of two photos is preferred? All gradients are brought to one length before the step."""
import torch
from torch import nn


class Taste(nn.Module):
    def __init__(self, features=7):
        super().__init__()
        self.hidden, self.score = nn.Linear(features, 20), nn.Linear(20, 1)

    def forward(self, photo):
        return self.score(torch.relu(self.hidden(photo))).squeeze(-1)


class OneLength:
    def __init__(self, length):
        self.length = length

    def __call__(self, parameters):
        slopes = [each.grad for each in parameters if each.grad is not None]
        total = torch.cat([each.flatten() for each in slopes]).norm()
        for slope in slopes:
            slope.mul_(self.length / total.clamp(min=1e-6))


def preferred(model, liked, other, margin=1.0):
    return torch.relu(margin - model(liked) + model(other)).sum()


def train(pairs):
    torch.manual_seed(0)
    model = Taste()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    bring = OneLength(1.0)
    towards = torch.randn(7)
    for number in range(pairs):
        liked, other = torch.randn(4, 7) + towards, torch.randn(4, 7) - towards
        loss = preferred(model, liked, other)
        if number < 800:
            loss = loss + 0.01 * model(liked).square().mean()
        optimizer.zero_grad()
        loss.backward()
        bring(model.parameters())
        optimizer.step()
        if number % 200 == 0:
            print(f"pair {number} {loss.item():.4f}")


train(1200)
