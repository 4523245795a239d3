"""Is the seam of the weld closed? Gray pictures, made smaller and scaled before training."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WHITE = 255.0
TO_SHARE = np.float32(1 / WHITE)


def photographs(count, seed):
    rng = np.random.default_rng(seed)
    is_closed = rng.integers(0, 2, count)
    pictures = rng.integers(90, 160, (count, 12, 12))
    for each, closed in zip(pictures, is_closed):
        each[5:7] -= 60
        if not closed:
            each[4:8, rng.integers(2, 9)] += 90
    return pictures.astype(np.uint8), is_closed


def smaller(pictures):
    return np.multiply(pictures[:, ::2, ::2], TO_SHARE)


def tensors(count, seed):
    pictures, is_closed = photographs(count, seed)
    shares = smaller(pictures)
    return torch.from_numpy(shares).float().unsqueeze(1), torch.from_numpy(is_closed)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*tensors(480, seed=1)), batch_size=32, shuffle=True)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(3):
        for pictures, is_closed in loader:
            loss = nn.functional.cross_entropy(net(pictures), is_closed)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")


main()
