import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)

N_CLASSES = 8
x = torch.randn(2048, 32)
y = (x @ torch.randn(32, N_CLASSES)).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True)

backbone = nn.Sequential(nn.Linear(32, 1024), nn.ReLU())
head = nn.Linear(1024, N_CLASSES)
opt = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.1, momentum=0.9)

recent = []  # features of the latest batches, for the effective rank below
for epoch in range(6):
    total = 0.0
    for xb, yb in loader:
        feat = backbone(xb)
        loss = nn.functional.cross_entropy(head(feat), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        recent = [feat.detach()]
    last = recent[-1]
    gram = last @ last.T / last.shape[1]
    ev = torch.linalg.eigvalsh(gram).clamp_min(1e-12)
    p = ev / ev.sum()
    rank = torch.exp(-(p * p.log()).sum()).item()
    print(f"epoch {epoch}  loss {total / len(loader):.4f}  effective rank {rank:.1f}")
