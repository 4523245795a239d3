"""One finite stream, read once: the first batches warm the head up, the rest trains everything, then results are told."""
from itertools import islice

import torch
from torch import nn


def packets(count, size):
    """network packets: normal or scanning"""
    gen = torch.Generator().manual_seed(77)
    for _ in range(count):
        scan = torch.randint(0, 2, (size,), generator=gen)
        yield torch.randn(size, 6, generator=gen) + 0.8 * scan[:, None], scan


torch.manual_seed(77)
body, head = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), nn.Linear(16, 2)
stream = packets(48, 16)
test_x, test_y = next(packets(1, 400))
results = {}
for phase, weights, most in (
    ("head", [*head.parameters()], 12),
    ("all", [*body.parameters(), *head.parameters()], None),
):
    opt = torch.optim.Adam(weights, lr=4e-3)
    for x, y in islice(stream, most):
        loss = nn.functional.cross_entropy(head(body(x)), y)
        opt.zero_grad()
        body.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        results[phase] = (head(body(test_x)).argmax(1) == test_y).float().mean().item()

for epoch in range(3):
    # Looking at the same model again: the stream is over, and nothing is to be trained any more.
    with torch.no_grad():
        noisy = test_x + 0.2 * epoch * torch.randn_like(test_x)
        print(f"noise {0.2 * epoch:.1f}: {(head(body(noisy)).argmax(1) == test_y).float().mean().item():.3f}")
print({name: round(value, 3) for name, value in results.items()})
