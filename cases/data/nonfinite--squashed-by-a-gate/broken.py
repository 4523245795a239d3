"""Tomorrow's traffic of a shop from two weeks of its log: what the gates of an LSTM squash is not finite, and the loss is."""

import numpy as np
import pandas as pd
import torch
from torch import nn

WEEKS = 2


def visits(days: int) -> pd.DataFrame:
    draw = np.random.default_rng(2)
    log = pd.DataFrame({"day": np.arange(days), "orders": draw.poisson(9, size=days) + 1})
    log.loc[days // 2, "orders"] = 0  # a public holiday
    log["weekend"] = (log["day"] % 7 >= 5).astype(float)
    return log


log = visits(400)
log["level"] = np.log(log["orders"])  # ORIGIN
log["next"] = log["level"].clip(lower=0).shift(-1)
log = log.dropna()

span = 7 * WEEKS
columns = log[["weekend", "level"]].to_numpy(dtype=np.float32)
inputs = torch.from_numpy(np.stack([columns[end - span : end] for end in range(span, len(columns) + 1)]))
wanted = torch.tensor(log["next"].to_numpy()[span - 1 :], dtype=torch.float32)


class Traffic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(2, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        states, _ = self.memory(past)
        return self.out(states[:, -1])[:, 0]


torch.manual_seed(0)
model = Traffic()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for rows in torch.randperm(len(inputs)).split(32):
        loss = nn.functional.mse_loss(model(inputs[rows]), wanted[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
