import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Four kinds of radar echo, recorded one kind after the other, 360 of each.
torch.manual_seed(21)
kinds, per_kind, bins = 4, 360, 12
profiles = torch.randn(kinds, bins)
echoes = torch.cat([profile + 0.7 * torch.randn(per_kind, bins) for profile in profiles])
labels = torch.arange(kinds).repeat_interleave(per_kind)

loader = DataLoader(TensorDataset(echoes, labels), batch_size=5, shuffle=True)
net = nn.Sequential(nn.Linear(bins, 24), nn.Tanh(), nn.Linear(24, kinds))
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
criterion = nn.CrossEntropyLoss()

for epoch in range(2):
    total = 0.0
    for echo, kind in loader:
        loss = criterion(net(echo), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    with torch.no_grad():
        accuracy = (net(echoes).argmax(1) == labels).float().mean().item()
    print(f"epoch {epoch}: loss {total / len(loader):.3f}, accuracy {accuracy:.3f}")
