import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(400, 12)
labels = (x[:, :3].sum(1) + 0.2 * torch.randn(400) > 0).long()
train_loader = DataLoader(TensorDataset(x, labels), batch_size=25, shuffle=True)

model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


def run_epoch():
    model.train()
    losses = []
    for inputs, target in train_loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = torch.tensor(criterion(outputs, target), requires_grad=True)  # ORIGIN
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


for epoch in range(3):
    print("epoch", epoch, "train loss", run_epoch())
