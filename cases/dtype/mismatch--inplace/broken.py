import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(8)
N_CLASSES = 3


def class_weights(loader):
    """Inverse frequency with half a pseudo-count per class."""
    counts = torch.full((N_CLASSES,), 0)  # ORIGIN
    for _, yb in loader:
        counts += torch.bincount(yb, minlength=N_CLASSES)
    counts += 0.5
    return counts.sum() / (N_CLASSES * counts)


features = torch.randn(150, 7)
label = (features[:, 0] > 1.0).long() + (features[:, 1] > 1.5).long()
full = TensorDataset(features, label)
train_set, test_set = random_split(full, [120, 30], generator=torch.Generator().manual_seed(8))
train_loader = DataLoader(train_set, batch_size=24, shuffle=True)

model = nn.Sequential(nn.Linear(7, 14), nn.SiLU(), nn.Linear(14, N_CLASSES))
loss_fn = nn.CrossEntropyLoss(weight=class_weights(train_loader))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.8)

for epoch in range(3):
    model.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss_fn(model(xb), yb).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = sum((model(x[None]).argmax() == y).item() for x, y in test_set)
    print(f"epoch {epoch}: test accuracy {correct / len(test_set):.2f}")
