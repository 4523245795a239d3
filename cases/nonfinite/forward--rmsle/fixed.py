import torch
from torch import nn

torch.manual_seed(21)

# trips per hour from weather
weather = torch.randn(400, 6)
trips = (weather[:, 0] * 1.2 + weather[:, 3] + 1.5).clamp(min=0).mul(3).round()

net = nn.Linear(6, 1)
nn.init.zeros_(net.bias)
opt = torch.optim.SGD(net.parameters(), lr=0.8)

lr_drop = [20, 30]
for it in range(40):
    i = torch.randint(400, (64,))
    pred = nn.functional.softplus(net(weather[i]).squeeze(1))
    log_pred = torch.log1p(pred)
    log_true = torch.log1p(trips[i])
    rmsle = (log_pred - log_true).pow(2).mean().sqrt()
    opt.zero_grad()
    rmsle.backward()
    opt.step()
    if it in lr_drop:
        opt.param_groups[0]["lr"] /= 3
    if it % 4 == 0:
        print(it, "rmsle", rmsle.item())

with torch.no_grad():
    print("mean prediction", net(weather).mean().item(), "mean trips", trips.mean().item())
