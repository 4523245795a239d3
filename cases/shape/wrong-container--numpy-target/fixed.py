import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(4)


class Forecaster:
    """One step ahead from the last twelve readings."""

    def __init__(self, window=12):
        self.net = nn.Sequential(nn.Linear(window, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def fit(self, windows, following, epochs=3, batch=20):
        for _ in range(epochs):
            for start in range(0, len(windows), batch):
                part = slice(start, start + batch)
                predicted = self.net(torch.from_numpy(windows[part]).float())
                loss = nn.functional.mse_loss(predicted, torch.as_tensor(following[part], dtype=torch.float32))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(f"{loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(4)
    readings = np.sin(np.arange(120) / 5) + 0.05 * rng.standard_normal(120)
    windows = np.lib.stride_tricks.sliding_window_view(readings, 13)
    Forecaster().fit(windows[:, :12].copy(), windows[:, 12:].copy())
