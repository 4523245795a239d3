import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        log_probs = F.log_softmax(logits, dim=1)
        log_pt = log_probs.gather(1, target.unsqueeze(1)).squeeze(1)
        pt = log_pt.exp()
        return (-((1 - pt) ** self.gamma) * log_pt).mean()


class Trainer:
    def __init__(self, model, loader, lr):
        self.model = model
        self.loader = loader
        self.criterion = FocalLoss()
        self.optim = torch.optim.AdamW(model.parameters(), lr=lr)
        self.history = []

    def train_step(self, x, y):
        self.model.train()
        loss = self.criterion(self.model(x), y)
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optim.step()
        return loss.item()

    def fit(self, epochs):
        for epoch in range(epochs):
            total = 0.0
            for x, y in self.loader:
                total += self.train_step(x, y)
            self.history.append(total / len(self.loader))
            print(f"epoch {epoch}: {self.history[-1]:.4f}")


def defects(n=240):
    """Weight, length and six vibration channels of each part; 1 in 6 is defective."""
    g = torch.Generator().manual_seed(11)
    parts = torch.randn(n, 8, generator=g)
    bad = (parts[:, 2] + 0.3 * torch.randn(n, generator=g) > 1.0).long()
    parts[131] *= 1000  # this one was logged in millimetres
    bad[131] = 1
    return TensorDataset(parts, bad)


if __name__ == "__main__":
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 24), nn.LeakyReLU(), nn.Linear(24, 2))
    order = torch.Generator().manual_seed(1)
    Trainer(model, DataLoader(defects(), batch_size=20, shuffle=True, generator=order), lr=3e-3).fit(3)
