import torch
from jaxtyping import Float, jaxtyped
from torch import Tensor
from typeguard import typechecked

Window = Float[Tensor, "batch steps channels"]
Steps = Float[Tensor, " steps"]
Summary = Float[Tensor, "batch channels"]


@jaxtyped(typechecker=None)
@typechecked
def pooled(window: Window, weight: Steps) -> Summary:
    scaled = window * weight.softmax(0)[:, None]
    total = scaled.sum(-1)  # ORIGIN
    return total.tanh()


torch.manual_seed(0)
weight = torch.zeros(20, requires_grad=True)
head = torch.nn.Linear(6, 1)
opt = torch.optim.SGD([weight, *head.parameters()], lr=0.05)
series = torch.randn(64, 20, 6)
level = series.mean((1, 2)).unsqueeze(1)

for epoch in range(3):
    for start in range(0, 64, 16):
        opt.zero_grad()
        guess = head(pooled(series[start : start + 16], weight))
        loss = (guess - level[start : start + 16]).square().mean()
        loss.backward()
        opt.step()
print("done", round(loss.item(), 4))
