"""A word model on parallel strips of one long text, time along the first axis."""

import torch
from torch import nn


class WordModel(nn.Module):
    def __init__(self, words: int, dim: int, longest: int):
        super().__init__()
        self.lookup = nn.Embedding(words, dim)
        self.place = nn.Parameter(torch.zeros(longest, 1, dim))
        self.block = nn.TransformerEncoderLayer(dim, nhead=2, dim_feedforward=2 * dim, dropout=0.1)
        self.back = nn.Linear(dim, words)

    def forward(self, strip: torch.Tensor) -> torch.Tensor:
        h = self.lookup(strip) + self.place[: len(strip)]
        mask = nn.Transformer.generate_square_subsequent_mask(len(strip))
        return self.back(self.block(h, src_mask=mask, is_causal=True))


def strips(text: torch.Tensor, lanes: int) -> torch.Tensor:
    return text[: len(text) // lanes * lanes].reshape(lanes, -1).T.contiguous()


def main(span: int = 15) -> None:
    torch.manual_seed(8)
    table = strips(torch.randint(26, (3000,)), lanes=12)
    model = WordModel(words=26, dim=16, longest=span)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for start in range(0, len(table) - span - 1, span):
        seen, wanted = table[start : start + span], table[start + 1 : start + span + 1]
        loss = nn.functional.cross_entropy(model(seen).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.3f}")


main()
