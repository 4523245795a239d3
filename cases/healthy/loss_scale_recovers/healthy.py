import torch
import torch.nn.functional as F
from torch import nn
from torch.amp import GradScaler, autocast


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 16, 5, padding=2)
        self.norm = nn.GroupNorm(4, 16)
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        return self.fc(F.relu(self.norm(self.conv(x))).mean(-1))


def gestures(n, length=24):
    kind = torch.randint(0, 4, (n,))
    t = torch.linspace(0, 6.28, length)
    freq = (1 + kind).view(-1, 1, 1)
    x = torch.sin(freq * t + 6.28 * torch.rand(n, 3, 1)) + 0.2 * torch.randn(n, 3, length)
    return x, kind


torch.manual_seed(4)
net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
# starts far too high: the first few steps are skipped until the scale fits, later it grows again
scaler = GradScaler(device="cpu", init_scale=2.0 ** 22, growth_interval=10)
scales = []
for step in range(50):
    x, y = gestures(32)
    opt.zero_grad()
    with autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    scales.append(scaler.get_scale())
    if step % 10 == 9:
        print(f"step {step + 1} loss {loss.item():.4f} scale {scales[-1]:g}")
drops = sum(b < a for a, b in zip(scales, scales[1:]))
print(f"scale halved {drops} times, lowest {min(scales):g}, last {scales[-1]:g}")
