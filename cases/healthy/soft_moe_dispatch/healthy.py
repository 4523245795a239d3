"""A soft mixture of experts: slots are weighted means over all tokens, so one of its two softmaxes runs over the tokens."""
import torch
from torch import nn


class SoftMixture(nn.Module):
    def __init__(self, width=16, experts=4, slots=2):
        super().__init__()
        self.slots = nn.Linear(width, experts * slots, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)) for _ in range(experts)
        )

    def forward(self, tokens):
        score = self.slots(tokens)
        dispatch, combine = score.softmax(dim=0), score.softmax(dim=1)
        mixed = (dispatch.T @ tokens).chunk(len(self.experts))
        made = torch.cat([expert(part) for expert, part in zip(self.experts, mixed)])
        return tokens + combine @ made


class Tagger(nn.Module):
    def __init__(self, words=40, tags=5, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mixture = SoftMixture(width)
        self.head = nn.Linear(width, tags)

    def forward(self, words):
        return self.head(self.mixture(self.embed(words)))


torch.manual_seed(2)
tag_of = torch.randint(0, 5, (40,))
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(40):
    words = torch.randint(0, 40, (48,))
    loss = nn.functional.cross_entropy(model(words), tag_of[words])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step, round(loss.item(), 3))
