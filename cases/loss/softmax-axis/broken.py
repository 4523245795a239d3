import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

# behaviour cloning: copy an expert that steers a boat (left / straight / right)
torch.manual_seed(4)
obs = torch.randn(640, 5)
steer = 1.2 * obs[:, 0] - 0.6 * obs[:, 3] + 0.1 * torch.randn(640)
actions = (steer > -0.5).long() + (steer > 0.5).long()


class Policy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.fc1 = nn.Linear(n_obs, 32)
        self.fc2 = nn.Linear(32, n_act)

    def forward(self, o):
        h = F.relu(self.fc1(o))
        return F.softmax(self.fc2(h), dim=0)  # ORIGIN


train_set, val_set = random_split(TensorDataset(obs, actions), [512, 128])
train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
val_loader = DataLoader(val_set, batch_size=128)

policy = Policy(5, 3)
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)

for epoch in range(6):
    policy.train()
    for o, a in train_loader:
        probs = policy(o)
        chosen = probs.gather(1, a.unsqueeze(1)).squeeze(1)
        loss = -torch.log(chosen + 1e-8).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()

    policy.eval()
    hits = 0
    with torch.no_grad():
        for o, a in val_loader:
            hits += (policy(o).argmax(1) == a).sum().item()
    print(f"epoch {epoch}: loss {loss.item():.4f}  val acc {hits / len(val_set):.3f}")
