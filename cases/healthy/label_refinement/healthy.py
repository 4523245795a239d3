"""Noisy labels: the dataset keeps soft targets and the training loop moves them towards the model's own view, on purpose."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(90)
CLASSES = 3


class SoftLabelled(Dataset):
    def __init__(self, x, noisy):
        self.x = x
        self.soft = F.one_hot(noisy, CLASSES).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return i, self.x[i], self.soft[i].clone()

    def refine(self, index, belief, keep=0.7):
        self.soft[index] = keep * self.soft[index] + (1 - keep) * belief


true = torch.randint(0, CLASSES, (360,))
x = torch.randn(360, 6) + 1.5 * F.one_hot(true, 6)
x = (x - x.mean(0)) / x.std(0)
flipped = torch.rand(360) < 0.25
noisy = torch.where(flipped, torch.randint(0, CLASSES, (360,)), true)

data = SoftLabelled(x, noisy)
loader = DataLoader(data, batch_size=36, shuffle=True)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, CLASSES))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(8):
    for index, xb, soft in loader:
        logits = net(xb)
        loss = F.cross_entropy(logits, soft)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch >= 3:
            data.refine(index, logits.detach().softmax(1))
    agree = (data.soft.argmax(1) == true).float().mean().item()
    print(f"epoch {epoch}: loss {loss.item():.3f}, stored labels right {agree:.3f}")
