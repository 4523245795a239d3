import torch
from torch import nn, optim

torch.manual_seed(31)


class ProtoClassifier(nn.Module):
    """negative squared distance to one prototype per class"""

    def __init__(self, n_in, n_classes, dim=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, dim))
        # uniform in [-0.5, 0.5)
        self.prototypes = nn.Parameter(torch.rand(n_classes, dim) - 0.5)

    def forward(self, x):
        z = self.body(x)
        return -torch.cdist(z, self.prototypes).square()


means = torch.randn(5, 10) * 1.2
labels = torch.randint(0, 5, (600,))
points = means[labels] + torch.randn(600, 10)
points = (points - points.mean(0)) / points.std(0)

net = ProtoClassifier(10, 5)
sgd = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
print("trainable tensors:", len(list(net.parameters())))
for epoch in range(4):
    order = torch.randperm(600)
    for chunk in order.split(50):
        logits = net(points[chunk])
        loss = nn.functional.cross_entropy(logits, labels[chunk])
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    with torch.no_grad():
        acc = (net(points).argmax(1) == labels).float().mean().item()
    print("epoch", epoch, "loss", round(loss.item(), 4), "acc", round(acc, 3))
