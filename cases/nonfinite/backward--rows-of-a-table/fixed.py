"""Which of two players wins, from how far apart they are in a table of strengths. Weights are loose tensors."""
import torch

torch.manual_seed(3)
PLAYERS, DIMS, RATE = 30, 3, 0.5


def distance(table, one, other):
    apart = table[one] - table[other]
    return (apart.pow(2).sum(1) + 1e-9).sqrt()


def loss_of(weights, one, other, upset):
    far = distance(weights["strength"], one, other)
    chance = torch.sigmoid(weights["slope"] * far + weights["bias"])
    return -(upset * chance.log() + (1 - upset) * (1 - chance).log()).mean()


def begin():
    return {
        "strength": torch.randn(PLAYERS, DIMS).requires_grad_(),
        "slope": torch.zeros(()).requires_grad_(),
        "bias": torch.zeros(()).requires_grad_(),
    }


weights = begin()
truth = torch.randn(PLAYERS, DIMS)
for evening in range(60):
    one, other = torch.randint(PLAYERS, (2, 24))
    if evening < 45:
        other = torch.where(other == one, (other + 1) % PLAYERS, other)
    upset = ((truth[one] - truth[other]).norm(dim=1) < 2).float()
    loss = loss_of(weights, one, other, upset)
    gradients = torch.autograd.grad(loss, tuple(weights.values()))
    with torch.no_grad():
        for weight, gradient in zip(weights.values(), gradients):
            weight -= RATE * gradient
    if evening % 10 == 0:
        print(evening, round(loss.item(), 4))
