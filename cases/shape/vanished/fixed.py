import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)


class VGGish(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.conv3 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv4 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv5 = nn.Conv2d(32, 64, 3, padding=1)
        self.classifier = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.max_pool2d(F.relu(self.conv3(x)), 2)
        x = F.max_pool2d(F.relu(self.conv4(x)), 2)
        x = F.relu(self.conv5(x))
        x = F.adaptive_max_pool2d(x, 1)
        return self.classifier(x.flatten(1))


# icons, 16x16 RGB
icons = torch.rand(80, 3, 16, 16)
labels = torch.randint(10, (80,))

net = VGGish()
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
print(sum(p.numel() for p in net.parameters()), "parameters")

for epoch in range(2):
    order = torch.randperm(len(icons))
    for idx in order.view(-1, 20):
        loss = F.cross_entropy(net(icons[idx]), labels[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, loss.item())
