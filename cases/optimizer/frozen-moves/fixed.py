import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(17)

EPOCHS, FREEZE_AT = 6, 2

x = torch.randn(480, 14)
w = torch.randn(14, 4)
y = (x @ w + 0.3 * torch.randn(480, 4)).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

body = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
head = nn.Linear(32, 4)
model = nn.Sequential(body, head)
opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
ce = nn.CrossEntropyLoss()

for epoch in range(EPOCHS):
    if epoch == FREEZE_AT:
        # body is good enough, from here on only the head is tuned
        for p in body.parameters():
            p.requires_grad_(False)
            p.grad = None
        reference = body[0].weight.clone()
    total = 0.0
    for xb, yb in loader:
        opt.zero_grad(set_to_none=False)
        loss = ce(model(xb), yb)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch}  loss {total / len(loader):.4f}")

print("drift of the body:", (body[0].weight - reference).abs().max().item())
