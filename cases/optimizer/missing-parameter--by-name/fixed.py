"""A ranker of recipes. Biases are not decayed, which is why weights are sorted by their names."""

import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, ingredients=60, width=24):
        super().__init__()
        self.embed = nn.EmbeddingBag(ingredients, width)
        self.mix = nn.Linear(width, width)
        self.temper = nn.Parameter(torch.ones(1))
        self.score = nn.Linear(width, 1)

    def forward(self, recipe):
        return self.score(torch.tanh(self.mix(self.embed(recipe)) * self.temper))[:, 0]


def optimizer_for(model, rate=3e-3, decay=0.01):
    decayed, plain = [], []
    for name, weight in model.named_parameters():
        if name.endswith("weight"):
            decayed.append(weight)
        else:
            plain.append(weight)
    return torch.optim.AdamW([{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}], lr=rate)


def main():
    torch.manual_seed(8)
    taste = torch.randn(60)
    recipes = torch.randint(60, (480, 6))
    liked = taste[recipes].mean(1)
    model = Ranker()
    optimizer = optimizer_for(model)
    for epoch in range(5):
        for rows in torch.randperm(480).split(40):
            one, other = rows.chunk(2)
            better = (liked[one] > liked[other]).float()
            margin = model(recipes[one]) - model(recipes[other])
            loss = nn.functional.binary_cross_entropy_with_logits(margin, better)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
