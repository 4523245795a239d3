import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(1)
torch.manual_seed(1)

# churn: 7 standardised customer features, 1 = customer left
feats = rng.normal(size=(500, 7)).astype(np.float32)
left = (feats[:, 1] - feats[:, 4] + 0.5 * rng.normal(size=500) > 0).astype(np.float32)
data = TensorDataset(torch.from_numpy(feats), torch.from_numpy(left).unsqueeze(1))
loader = DataLoader(data, batch_size=50, shuffle=True)

churn_net = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(churn_net.parameters(), lr=0.01)

for epoch in range(5):
    epoch_loss = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        logits = churn_net(x)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    print("Epoch: {} | Loss: {:.4f}".format(epoch + 1, epoch_loss / len(loader)))
