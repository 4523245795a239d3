import torch
import torch.nn as nn
import torch.nn.functional as F

SEQ_LEN, N_SENSORS, WIDTH, ACTIVITIES = 50, 9, 16, 5


class SensorEncoder(nn.Module):
    """Per-frame projection, normalisation, then attention pooling."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(N_SENSORS, WIDTH)
        self.bn = nn.BatchNorm1d(WIDTH)
        self.query = nn.Parameter(torch.zeros(WIDTH))
        self.out = nn.Linear(WIDTH, ACTIVITIES)

    def forward(self, frames):
        h = self.proj(frames)
        h = F.relu(self.bn(h))  # ORIGIN
        weight = (h @ self.query).softmax(dim=1)
        pooled = (weight.unsqueeze(-1) * h).sum(dim=1)
        return self.out(pooled)


class RandomWalks(torch.utils.data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for _ in range(self.n):
            activity = torch.randint(ACTIVITIES, ())
            steps = torch.randn(SEQ_LEN, N_SENSORS) * (1 + activity) * 0.1
            yield steps.cumsum(0), activity


torch.manual_seed(31)
encoder = SensorEncoder()
optimiser = torch.optim.NAdam(encoder.parameters(), lr=3e-3)

for n, (frames, activity) in enumerate(torch.utils.data.DataLoader(RandomWalks(96), batch_size=12)):
    loss = F.cross_entropy(encoder(frames), activity)
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    print("batch %2d   loss %.3f" % (n, loss.item()))
