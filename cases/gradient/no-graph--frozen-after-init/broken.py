"""Fine-tuning: small weights to begin with, the encoder frozen by name, the head trained."""

import torch
from torch import nn

torch.manual_seed(5)


class Tagger(nn.Module):
    def __init__(self, words=50, tags=4, width=16):
        super().__init__()
        self.encoder_words = nn.Embedding(words, width)
        self.encoder_mix = nn.Linear(width, width)
        self.encoder_head = nn.Linear(width, tags)
        self.apply(self.begin)

    @staticmethod
    @torch.no_grad()
    def begin(layer):
        if isinstance(layer, nn.Linear | nn.Embedding):
            layer.weight.normal_(0.0, 0.02)
        if isinstance(layer, nn.Linear):
            layer.bias.zero_()

    def forward(self, ids):
        return self.encoder_head(torch.tanh(self.encoder_mix(self.encoder_words(ids))))


model = Tagger()
for name, weight in model.named_parameters():
    if name.startswith("encoder"):
        weight.requires_grad = False  # ORIGIN

optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
ids = torch.randint(50, (64, 12))
tags = ids % 4
for epoch in range(5):
    rows = torch.randperm(64)[:32]
    loss = nn.functional.cross_entropy(model(ids[rows]).flatten(0, 1), tags[rows].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, round(loss.item(), 4))
