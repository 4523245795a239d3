from torch import nn


class MultiTaskNet(nn.Module):
    def __init__(self, n_features, n_tasks, width=48):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(n_features, width), nn.SiLU())
        self.heads = nn.Linear(width, n_tasks)

    def forward(self, x):
        return self.heads(self.shared(x))
