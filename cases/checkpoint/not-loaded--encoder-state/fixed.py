# Digits-like patterns: an autoencoder first, then a classifier that begins with its encoder.
import torch
import torch.nn as nn

torch.manual_seed(21)
patterns = torch.rand(4, 36)


def draw(count):
    kind = torch.randint(0, 4, (count,))
    return (patterns[kind] + 0.2 * torch.randn(count, 36)).clamp(0, 1), kind


def make_encoder():
    return nn.Sequential(nn.Linear(36, 32), nn.GELU(), nn.Linear(32, 8))


encoder = make_encoder()
decoder = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 36))
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
for i in range(60):
    x, _ = draw(64)
    loss = nn.functional.mse_loss(decoder(encoder(x)), x)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("reconstruction", loss.item())
kept = {name: weight.detach().clone() for name, weight in encoder.state_dict().items()}

classifier = nn.Sequential()
classifier.add_module("encoder", make_encoder())
classifier.add_module("act", nn.GELU())
classifier.add_module("head", nn.Linear(8, 4))
classifier.encoder.load_state_dict(kept)

opt = torch.optim.Adam(classifier.parameters(), lr=3e-3)
for i in range(60):
    x, kind = draw(64)
    loss = nn.functional.cross_entropy(classifier(x), kind)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("classification", loss.item())
