"""Whether a wine is red, from its chemistry: a small net out of plain tensors, with gradients asked for one by one."""

import torch


class Dense:
    def __init__(self, inputs, outputs):
        self.weight = torch.randn(inputs, outputs) / inputs**0.5
        self.bias = torch.zeros(outputs)
        for each in (self.weight, self.bias):
            each.requires_grad_()

    def __call__(self, rows):
        return torch.addmm(self.bias, rows, self.weight)


def wines(n):
    acid, sugar, sulphur, tannin = torch.randn(4, n)
    red = (tannin * acid - 0.5 * sugar * sulphur > 0).float()
    return torch.stack([acid, sugar, sulphur, tannin], dim=1), red


torch.manual_seed(2)
chemistry, red = wines(480)
hidden, out = Dense(4, 24), Dense(24, 1)
weights = [hidden.weight, hidden.bias, out.weight, out.bias]
velocity = [torch.zeros_like(each) for each in weights]

for epoch in range(6):
    for rows in torch.randperm(480).split(48):
        score = out(torch.tanh(hidden(chemistry[rows])))[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(score, red[rows])
        slopes = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, slope, speed in zip(weights, slopes, velocity):
                speed.mul_(0.9).add_(slope)
                weight.sub_(0.1 * speed)
    print(f"epoch {epoch} loss {loss.item():.4f}")
