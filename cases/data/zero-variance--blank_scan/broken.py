"""Denoising autoencoder on strips of a scanner, in the older style of torch: Variables, tensor types, size_average."""
import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, Dataset

FloatTensor = torch.FloatTensor
torch.manual_seed(1)


class Strips(Dataset):
    def __init__(self, count, width, transform):
        phase = torch.rand(count, 1) * 6
        self.strips = 0.5 + 0.4 * torch.sin(phase + torch.linspace(0, 12, width))
        self.strips[71] = 0.0  # the lamp was off
        self.transform = transform

    def __len__(self):
        return len(self.strips)

    def __getitem__(self, i):
        return self.transform(self.strips[i]), i


loader = DataLoader(
    Strips(
        160,
        40,
        transform=lambda strip: (strip - strip.mean()) / strip.std(),  # ORIGIN
    ),
    batch_size=16,
    shuffle=True,
)
net = nn.Sequential(nn.Linear(40, 12), nn.Tanh(), nn.Linear(12, 40))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
criterion = nn.MSELoss()

for epoch in range(4):
    for strips, _ in loader:
        clean = Variable(strips.type(FloatTensor))
        noisy = clean + Variable(0.1 * torch.randn(clean.size()))
        optimizer.zero_grad()
        loss = criterion(net(noisy), clean)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
