import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

cfg = {"epochs": 14, "lr": 0.1, "batch_size": 24}

torch.manual_seed(41)
signal = torch.randn(192, 8)
label = (signal[:, 0] * signal[:, 1] + 0.3 * signal[:, 2] > 0).long()
loader = DataLoader(TensorDataset(signal, label), batch_size=cfg["batch_size"], shuffle=True)

net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.SGD(net.parameters(), lr=cfg["lr"], momentum=0.9, nesterov=True)
sched = CosineAnnealingLR(opt, cfg["epochs"], eta_min=1e-4)


def run_epoch():
    right = 0
    for x, y in loader:
        out = net(x)
        opt.zero_grad()
        nn.functional.cross_entropy(out, y).backward()
        opt.step()
        right += (out.argmax(1) == y).sum().item()
    return right / len(signal)


for epoch in range(cfg["epochs"]):
    accuracy = run_epoch()
    sched.step()
    print(f"{epoch:2d}  {accuracy:.3f}  lr {opt.param_groups[0]['lr']:.4f}")
