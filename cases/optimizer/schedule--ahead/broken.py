import torch
from torch import nn

torch.manual_seed(31)

x = torch.randn(192, 6)
y = x.sum(1, keepdim=True).tanh()

model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.3)

for epoch in range(6):
    scheduler.step()  # ORIGIN
    for rows in torch.randperm(len(x)).split(24):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
