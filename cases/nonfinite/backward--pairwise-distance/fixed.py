import torch
from torch import nn

torch.manual_seed(5)
CLASSES, DIM = 6, 20
centres = torch.randn(CLASSES, DIM)


def sample_batch(per_class=4):
    labels = torch.arange(CLASSES).repeat_interleave(per_class)
    return centres[labels] + 0.5 * torch.randn(len(labels), DIM), labels


def batch_hard_triplet(emb, labels, margin=0.4):
    """Hermans et al. 2017: hardest positive and hardest negative of every anchor."""
    diff = emb[:, None, :] - emb[None, :, :]
    dist = diff.pow(2).sum(-1).clamp_min(1e-12).sqrt()
    same = labels[:, None] == labels[None, :]
    self_pair = torch.eye(len(labels), dtype=torch.bool)
    hardest_pos = dist.masked_fill(~same | self_pair, 0.0).amax(1)
    hardest_neg = dist.masked_fill(same, 1e4).amin(1)
    return torch.relu(hardest_pos - hardest_neg + margin).mean()


encoder = nn.Sequential(nn.Linear(DIM, 64), nn.GELU(), nn.Linear(64, 16))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
for it in range(25):
    x, y = sample_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        emb = encoder(x)
    loss = batch_hard_triplet(emb.float(), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % 6 == 0:
        print(f"it {it:2d} triplet {loss.item():.4f}")

with torch.no_grad():
    x, y = sample_batch(8)
    nearest = torch.cdist(encoder(x), encoder(x)).fill_diagonal_(float("inf")).argmin(1)
    print("nearest neighbour of the same class:", (y[nearest] == y).float().mean().item())
