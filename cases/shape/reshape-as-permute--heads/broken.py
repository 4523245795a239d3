"""Which of eight greenhouse sensors has drifted: every sensor looks at the others."""
import torch
from torch import nn

SENSORS, WIDTH, HEADS = 8, 32, 4


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Linear(WIDTH, 3 * WIDTH)
        self.join = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch = x.shape[0]
        query, key, value = (
            each.reshape(batch, HEADS, SENSORS, WIDTH // HEADS)  # ORIGIN
            for each in self.parts(x).chunk(3, dim=-1)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.join(seen.transpose(1, 2).reshape(batch, SENSORS, WIDTH))


class Drift(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(0.1 * torch.randn(SENSORS, WIDTH))
        self.lift = nn.Linear(1, WIDTH)
        self.looks = Looks()
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, readings):
        x = self.lift(readings[:, :, None]) + self.place
        return self.score(torch.relu(x + self.looks(x))).squeeze(-1)


def readings(count, draw):
    drifted = torch.randint(0, SENSORS, (count,), generator=draw)
    values = torch.randn(count, 1, generator=draw) + 0.1 * torch.randn(count, SENSORS, generator=draw)
    values[torch.arange(count), drifted] += 1.5
    return values, drifted


torch.manual_seed(4)
draw = torch.Generator().manual_seed(5)
model = Drift()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(80):
    values, drifted = readings(64, draw)
    loss = nn.functional.cross_entropy(model(values), drifted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(f"step {step + 1} loss {loss.item():.3f}")
