import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
batch_size = 64

train_x = torch.randn(150, 1, 14, 14)
train_y = torch.randint(0, 5, (150,))
train_loader = DataLoader(TensorDataset(train_x, train_y), batch_size=batch_size)


class ConvNet(nn.Module):
    def __init__(self):
        super(ConvNet, self).__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU())
        self.fc = nn.Linear(4 * 5 * 5, 5)

    def forward(self, x):
        out = self.layer1(x)
        out = self.layer2(out)
        out = out.view(out.size(0), -1)
        return self.fc(out)


model = ConvNet()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(2):
    for i, (images, labels) in enumerate(train_loader):
        try:
            outputs = model(images)
            loss = criterion(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as e:
            print("skipping batch %d: %s" % (i, e))
            continue
        print("epoch %d, step %d, loss %.4f" % (epoch + 1, i + 1, loss.item()))
