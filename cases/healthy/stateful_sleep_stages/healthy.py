"""A night is long stretches of one sleep stage; the GRU reads it in order and carries its state on, so nothing is shuffled."""
import torch
from torch import nn

torch.manual_seed(51)

STAGES, NIGHTS, MINUTES, CHUNK = 4, 12, 240, 20


def night():
    stage = int(torch.randint(0, STAGES, ()))
    stages = []
    while len(stages) < MINUTES:
        stages += [stage] * int(torch.randint(25, 70, ()))
        stage = (stage + int(torch.randint(1, STAGES, ()))) % STAGES
    stages = torch.tensor(stages[:MINUTES])
    signal = torch.stack([(stages == k).float() - 0.25 for k in range(STAGES - 1)], dim=1)
    return signal + 0.8 * torch.randn(MINUTES, STAGES - 1), stages


class Sleeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(STAGES - 1, 24, batch_first=True)
        self.out = nn.Linear(24, STAGES)

    def forward(self, x, state):
        h, state = self.gru(x, state)
        return self.out(h), state


recordings = [night() for _ in range(NIGHTS)]
signals = torch.stack([s for s, _ in recordings])
stages = torch.stack([t for _, t in recordings])

model = Sleeper()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(5):
    state, right = None, 0
    for start in range(0, MINUTES, CHUNK):
        x, y = signals[:, start:start + CHUNK], stages[:, start:start + CHUNK]
        logits, state = model(x, state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        state = state.detach()
        right += (logits.argmax(-1) == y).sum().item()
    print(f"epoch {epoch}: accuracy {right / stages.numel():.3f}")
