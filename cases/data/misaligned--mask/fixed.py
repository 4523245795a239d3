"""Water meters: does a household leak? Some meters miss readings."""
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def read_meters(n, rng):
    leak = (rng.random(n) < 0.4).astype(np.int64)
    night = rng.normal(0.8 * leak[:, None], 1.0, (n, 7))
    night[rng.random((n, 7)) < 0.01] = np.nan
    return night.astype(np.float32), leak


def prepare(rng, n=600):
    night, leak = read_meters(n, rng)
    complete = ~np.isnan(night).any(axis=1)
    night = night[complete]
    leak = leak[complete]
    return TensorDataset(torch.from_numpy(night), torch.from_numpy(leak))


def main():
    torch.manual_seed(11)
    data = prepare(np.random.default_rng(11))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(7, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(6):
        right = seen = 0
        for night, leak in loader:
            optimizer.zero_grad()
            scores = model(night)
            criterion(scores, leak).backward()
            optimizer.step()
            right += (scores.argmax(1) == leak).sum().item()
            seen += len(leak)
        print(f"epoch {epoch}: {right / seen:.3f} of {seen}")


main()
