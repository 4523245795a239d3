"""Doses and responses: a Hill curve with its own backward, fitted to plates of measurements."""

import torch
from torch import nn


class Hill(torch.autograd.Function):
    """dose**n / (half**n + dose**n), kept in logarithms so that large doses do no harm."""

    @staticmethod
    def forward(ctx, log_dose, log_half, slope):
        share = torch.sigmoid(slope * (log_dose - log_half))
        ctx.save_for_backward(log_dose, log_half, slope, share)
        return share

    @staticmethod
    def backward(ctx, grad):
        log_dose, log_half, slope, share = ctx.saved_tensors
        steep = grad * share * (1 - share)
        to_half = -(steep * slope).sum(0)
        to_slope = (steep * (log_dose - log_half)).sum(0)
        return None, to_half, to_slope


class Plate(nn.Module):
    def __init__(self, drugs):
        super().__init__()
        self.log_half = nn.Parameter(torch.zeros(drugs))
        self.slope = nn.Parameter(torch.ones(drugs))

    def forward(self, log_dose):
        return Hill.apply(log_dose, self.log_half, self.slope)


def measure(count, drugs):
    log_dose = 2 * torch.randn(count, drugs)
    truth = torch.sigmoid(torch.linspace(0.5, 2.0, drugs) * (log_dose - torch.linspace(-1.0, 1.0, drugs)))
    return log_dose, truth + 0.02 * torch.randn(count, drugs)


torch.manual_seed(6)
plate = Plate(drugs=5)
optimizer = torch.optim.Adam(plate.parameters(), lr=0.05)
for step in range(80):
    log_dose, response = measure(64, 5)
    loss = nn.functional.mse_loss(plate(log_dose), response)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
