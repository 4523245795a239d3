"""Matching key points of two views: scores are normalised along both axes, as in detector-free matching."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Matcher(nn.Module):
    def __init__(self, width=16, anchors=12):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width))
        self.anchors = nn.Parameter(torch.randn(anchors, width) * 0.3)

    def forward(self, points):
        score = self.encode(points) @ self.anchors.T
        return score.log_softmax(0) + score.log_softmax(1)


torch.manual_seed(0)
centres = torch.randn(12, 6) * 2
which = torch.randint(0, 12, (640,))
points = centres[which] + torch.randn(640, 6) * 0.2
model = Matcher()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for view, anchor in DataLoader(TensorDataset(points, which), batch_size=40, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(view), anchor)
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
