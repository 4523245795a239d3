from collections import Counter

import torch
from torch import nn


class TriageTrainer:
    def __init__(self, features, urgency):
        self.features, self.urgency = features, urgency
        counts = Counter(urgency.tolist())
        self.weights = [len(urgency) / counts[level] for level in sorted(counts)]
        self.model = nn.Sequential(nn.Linear(features.shape[1], 12), nn.ReLU(), nn.Linear(12, len(counts)))
        self.criterion = nn.CrossEntropyLoss(weight=self.weights)  # ORIGIN

    def train(self, epochs=4):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        for _ in range(epochs):
            for rows in torch.randperm(len(self.urgency)).split(16):
                optimizer.zero_grad()
                loss = self.criterion(self.model(self.features[rows]), self.urgency[rows])
                loss.backward()
                optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(2)
    features = torch.randn(96, 7)
    urgency = (features[:, 0] > 1).long() + (features[:, 0] > -0.5).long()
    print(f"{TriageTrainer(features, urgency).train():.3f}")
