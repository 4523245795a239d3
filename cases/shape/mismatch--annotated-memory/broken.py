"""A little encoder and decoder; shapes are annotated, and beartype checks them."""

import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor, nn

WIDTH = 16


class CrossAttention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    @jaxtyped(typechecker=beartype)
    def forward(
        self,
        x: Float[Tensor, "batch target width"],
        memory: Float[Tensor, "batch source width"],
        mask: Float[Tensor, "batch source"],
    ) -> Float[Tensor, "batch target width"]:
        scores = self.query(x) @ self.key(memory).transpose(1, 2) / WIDTH**0.5
        scores = scores.masked_fill(mask[:, None] == 0, -1e9)
        return scores.softmax(-1) @ self.value(memory)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, WIDTH)
        self.encode = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.attend = CrossAttention(WIDTH)
        self.head = nn.Linear(WIDTH, 50)

    def forward(self, source, target):
        mask = (source != 0).float()
        mask = mask[:, 1:]  # ORIGIN
        mask = mask * (source[:, :1] >= 0)
        memory, _ = self.encode(self.embed(source))
        return self.head(self.attend(self.embed(target), memory, mask))


def main():
    torch.manual_seed(1)
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(6):
        source, target = torch.randint(1, 50, (8, 12)), torch.randint(1, 50, (8, 9))
        logits = model(source, target[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


main()
