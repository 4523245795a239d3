import numpy as np
import torch
import torch.nn as nn

# predict tomorrow's load from the last 12 days
rng = np.random.default_rng(7)
days = np.arange(700)
load = np.sin(2 * np.pi * days / 7) + 0.5 * np.sin(2 * np.pi * days / 30) + 0.1 * rng.standard_normal(700)

n_lags = 12
X = np.stack([load[i:i + n_lags] for i in range(len(load) - n_lags)])
y = load[n_lags:]
mean, std = X.mean(), X.std()
X = torch.from_numpy((X - mean) / std).float()
y = torch.from_numpy((y - mean) / std).float().view(-1, 1)


class LoadForecaster(nn.Module):
    def __init__(self, n_features, hidden=24):
        super().__init__()
        self.lstm = nn.LSTM(n_features, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.lstm(x)  # ORIGIN
        return self.linear(out)


torch.manual_seed(42)
model = LoadForecaster(n_features=n_lags)
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

batch_size = 43
for epoch in range(6):
    perm = torch.randperm(len(X))
    epoch_loss = []
    for start in range(0, len(X), batch_size):
        rows = perm[start:start + batch_size]
        optimizer.zero_grad()
        pred = model(X[rows])
        loss = loss_fn(pred, y[rows])
        loss.backward()
        optimizer.step()
        epoch_loss.append(loss.item())
    print("Epoch %d  MSE %.4f" % (epoch + 1, np.mean(epoch_loss)))
