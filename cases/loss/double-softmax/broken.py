import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, n=600, classes=5, dim=8, seed=0):
        g = torch.Generator().manual_seed(seed)
        centres = torch.randn(classes, dim, generator=g)
        self.y = torch.randint(0, classes, (n,), generator=g)
        self.x = centres[self.y] + 0.5 * torch.randn(n, dim, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 32)
        self.fc2 = nn.Linear(32, 5)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.softmax(self.fc2(x), dim=1)  # ORIGIN


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(Blobs(), batch_size=50, shuffle=True)
    net = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(4):
        running_loss, correct = 0.0, 0
        for inputs, labels in train_loader:
            optimizer.zero_grad()
            outputs = net(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
            correct += (outputs.argmax(1) == labels).sum().item()
        print(f"[{epoch + 1}] loss: {running_loss / len(train_loader):.3f} acc: {correct / 600:.3f}")


main()
