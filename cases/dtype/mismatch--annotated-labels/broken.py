from __future__ import annotations

import numpy as np
import torch
from beartype import beartype
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Flowers(Dataset):
    def __init__(self, rows: int = 96):
        rng = np.random.default_rng(4)
        kinds = rng.integers(0, 3, rows)
        self.petals = (rng.normal(size=(rows, 4)) * 0.5 + kinds[:, None]).astype(np.float32)
        self.kinds = kinds.astype(np.float32)  # ORIGIN

    def __len__(self):
        return len(self.petals)

    def __getitem__(self, index):
        return {"petals": self.petals[index], "kind": self.kinds[index]}


@beartype
def loss_of(logits: Float[Tensor, "batch classes"], kinds: Int[Tensor, " batch"]) -> Float[Tensor, ""]:
    return nn.functional.cross_entropy(logits, kinds)


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(Flowers(), batch_size=24, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in loader:
            optimizer.zero_grad()
            loss = loss_of(model(batch["petals"]), batch["kind"])
            loss.backward()
            optimizer.step()
    print("loss", round(loss.item(), 3))
