import torch
import torch.nn as nn


class FactorisationMachine(nn.Module):
    def __init__(self, n_features, k):
        super().__init__()
        self.linear = nn.Linear(n_features, 1)
        self.v = nn.Parameter(torch.randn(n_features, k) * 0.1)

    def forward(self, x):
        square_of_sum = (x @ self.v).pow(2).sum(1, keepdim=True)
        sum_of_square = (x.pow(2) @ self.v.pow(2)).sum(1, keepdim=True)
        return self.linear(x) + 0.5 * (square_of_sum - sum_of_square)


def training_data(n=640, d=12):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=g)
    y = x[:, 0] * x[:, 1] - x[:, 2] * x[:, 3] + 0.5 * x[:, 4]
    return x, y.unsqueeze(1)


def fit(model, x, y, epochs=6, batch=64):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    mse = nn.MSELoss()
    for epoch in range(epochs):
        running = 0.0
        for rows in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            loss = mse(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            running += loss.item() * len(rows)
        print(f"epoch {epoch + 1}/{epochs}  mse {running / len(x):.4f}")


torch.manual_seed(12)
x, y = training_data()
fit(FactorisationMachine(x.shape[1], k=4), x, y)
