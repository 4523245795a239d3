"""A bandit's policy gradient: rewards are kept in a memory of numpy arrays until there are enough for an update."""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(3)
torch.manual_seed(3)
ARMS, FEATURES, ROUNDS, EPISODES = 4, 6, 32, 12
truth = rng.normal(size=(FEATURES, ARMS))


class Memory:
    def __init__(self):
        self.rows = {"context": [], "arm": [], "reward": []}

    def keep(self, **row):
        for name, value in row.items():
            self.rows[name].append(value)

    def drain(self):
        arrays = {name: np.stack(values) for name, values in self.rows.items()}
        for values in self.rows.values():
            values.clear()
        return {name: torch.as_tensor(array) for name, array in arrays.items()}


def payoff(context, arm):
    clicks = max(context @ truth[:, arm] + 1.5, 1e-3)
    return np.float32(np.log(clicks))


policy = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, ARMS))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
memory = Memory()

for episode in range(EPISODES):
    for _ in range(ROUNDS):
        context = rng.normal(size=FEATURES).astype(np.float32)
        with torch.no_grad():
            arm = int(torch.distributions.Categorical(logits=policy(torch.from_numpy(context)), validate_args=False).sample())
        memory.keep(context=context, arm=np.int64(arm), reward=payoff(context, arm))
    batch = memory.drain()
    chosen = torch.log_softmax(policy(batch["context"]), dim=1).gather(1, batch["arm"][:, None]).squeeze(1)
    loss = -(chosen * (batch["reward"] - batch["reward"].mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{episode:2d} {loss.item():.4f}")
    if not torch.isfinite(loss):
        break
