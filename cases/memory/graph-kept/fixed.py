import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

DIM = 256
basis = torch.randn(12, DIM) / 12 ** 0.5
autoencoder = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, DIM))
optimizer = torch.optim.Adam(autoencoder.parameters(), lr=2e-3)

# mse is what we train on, mae is only for the report
mse_log, mae_log = [], []
for step in range(120):
    x = torch.randn(256, 12) @ basis
    rec = autoencoder(x)
    loss = F.mse_loss(rec, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mse_log.append(loss.item())
    mae_log.append(F.l1_loss(rec, x).item())
    if (step + 1) % 20 == 0:
        print(f"step {step + 1}: mse {sum(mse_log[-20:]) / 20:.4f}  mae {sum(mae_log[-20:]) / 20:.4f}")
