import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(
    nn.Linear(5, 24),
    nn.ReLU(),
    nn.Linear(24, 1),
)
params = model.parameters()
n_params = sum(p.numel() for p in params if p.requires_grad)  # ORIGIN
print(f"model has {n_params} trainable parameters")

optimizer = torch.optim.Adam(params, lr=1e-2)
loss_fn = nn.BCEWithLogitsLoss()

w = torch.randn(5)
for step in range(50):
    x = torch.randn(64, 5)
    y = ((x @ w) > 0).float().unsqueeze(1)
    loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
