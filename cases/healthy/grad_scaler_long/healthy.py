"""A loss scale, unscaled before it is clipped, over more steps than a first look takes."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=450)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(450):
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(net(x).squeeze(-1), x.sum(1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(filter(lambda p: p.requires_grad, net.parameters()), 1.0)
    scaler.step(opt)
    scaler.update()
    sched.step()
    if step % 150 == 0:
        print(step, round(loss.item(), 4))
