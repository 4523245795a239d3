"""Five small nets tell rock from ice in radar echoes, all trained at once."""
import torch
from torch.func import grad_and_value, vmap

MEMBERS = 5
torch.manual_seed(2)
echo = torch.rand(512, 10)
ice = (echo[:, 2] > echo[:, 7]).long()
echo[470] *= 3000  # the ship's own sonar


def member(key):
    draw = torch.Generator().manual_seed(key)
    return {"in": torch.randn(10, 16, generator=draw) * 0.5, "out": torch.randn(16, 2, generator=draw) * 0.5}


def nll(weights, x, y):
    score = torch.relu(x @ weights["in"]) @ weights["out"]
    power = torch.exp(score)  # ORIGIN
    share = power / power.sum(dim=1, keepdim=True)
    return -share.gather(1, y[:, None]).clamp(min=1e-9).log().mean()


members = [member(key) for key in range(MEMBERS)]
stacked = {name: torch.stack([each[name] for each in members]) for name in members[0]}
train = vmap(grad_and_value(nll), in_dims=(0, None, None))
for step in range(40):
    rows = slice(step * 32 % 512, step * 32 % 512 + 32)
    gradients, losses = train(stacked, echo[rows], ice[rows])
    stacked = {name: each - 0.2 * gradients[name] for name, each in stacked.items()}
print(f"loss of the members {losses.tolist()}")
