import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, 400)  # ORIGIN
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def get_loader(n=200, bs=50):
    torch.manual_seed(17)
    labels = torch.arange(n) % 10
    imgs = torch.rand(n, 1, 28, 28) * 0.2
    for k in range(10):
        imgs[labels == k, :, 2 * k:2 * k + 3] += 0.8
    ds = torch.utils.data.TensorDataset(imgs, labels)
    return torch.utils.data.DataLoader(ds, batch_size=bs, shuffle=True)


def train_one_epoch(model, loader, optimizer):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        print("Train step {}\tLoss: {:.6f}".format(batch_idx, loss.item()))


if __name__ == "__main__":
    loader = get_loader()
    model = Net()
    train_one_epoch(model, loader, torch.optim.Adadelta(model.parameters(), lr=1.0))
