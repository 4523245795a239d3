import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(6)


def load_faces(n=400):
    # grey 8-bit crops, three lighting directions
    side = torch.randint(0, 3, (n,))
    ramp = torch.linspace(-40, 40, 14)
    lights = torch.stack([ramp.expand(14, 14), ramp.flip(0).expand(14, 14), torch.zeros(14, 14)])
    pixels = 120 + 0.5 * lights[side] + 18 * torch.randn(n, 14, 14)
    return pixels.clamp(0, 255).to(torch.uint8), side


faces, side = load_faces()

# remove the mean face; stays 8 bit so the whole set fits in memory
mean_face = faces.float().mean(0).round().to(torch.uint8)
centred = faces.to(torch.int16) - mean_face


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(14 * 14, 24)
        self.out = nn.Linear(24, 3)

    def forward(self, x):
        return self.out(F.relu(self.hidden(x)))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    perm = torch.randperm(len(faces))
    for k in range(0, len(perm), 40):
        idx = perm[k:k + 40]
        x = centred[idx].flatten(1).float() / 32.0
        loss = F.cross_entropy(net(x), side[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if k % 200 == 0:
            print(f"epoch {epoch} sample {k:3d} loss {loss.item():.4f}")
