import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

x = torch.randn(768, 24)
y = (x @ torch.randn(24, 5)).argmax(dim=1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 5))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)

for epoch in range(3):
    running = 0.0
    for xb, yb in loader:
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = net(xb)
            loss = criterion(logits, yb)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)  # ORIGIN
        scaler.step(opt)
        scaler.update()
        running += loss.item()
    print(f"epoch {epoch}  loss {running / len(loader):.4f}  scale {scaler.get_scale():.0f}")
