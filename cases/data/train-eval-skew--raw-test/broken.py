import numpy as np
import torch
import torch.nn as nn

# concrete strength from the mix, 8 kg/m3 columns boiled down to 5
np.random.seed(21)
torch.manual_seed(21)
N = 600
cement = np.random.uniform(100, 540, N)
water = np.random.uniform(120, 247, N)
slag = np.random.uniform(0, 360, N)
gravel = np.random.uniform(800, 1145, N)
age = np.random.uniform(1, 365, N)
mix = np.column_stack([cement, water, slag, gravel, age])
strength = 0.08 * cement + 0.05 * slag - 0.15 * water + 6 * np.log(age) + np.random.randn(N) * 2

order = np.random.permutation(N)
tr, te = order[:480], order[480:]

mu, sd = mix[tr].mean(0), mix[tr].std(0)
y_mu, y_sd = strength[tr].mean(), strength[tr].std()

X_train = torch.tensor((mix[tr] - mu) / sd, dtype=torch.float32)
y_train = torch.tensor((strength[tr] - y_mu) / y_sd, dtype=torch.float32)
X_test = torch.tensor(mix[te], dtype=torch.float32)  # ORIGIN
y_test = torch.tensor((strength[te] - y_mu) / y_sd, dtype=torch.float32)

net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
loss_fn = nn.MSELoss()

for epoch in range(8):
    net.train()
    perm = torch.randperm(len(X_train))
    for k in range(0, len(perm), 40):
        batch = perm[k : k + 40]
        optimizer.zero_grad()
        loss = loss_fn(net(X_train[batch]).squeeze(-1), y_train[batch])
        loss.backward()
        optimizer.step()

    net.eval()
    with torch.no_grad():
        test_loss = loss_fn(net(X_test).squeeze(-1), y_test)
    print(f"epoch {epoch}: train {loss.item():.3f} test {test_loss.item():.3f}")
