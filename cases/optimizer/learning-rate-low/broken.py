import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)


def get_batch(bs=64):
    """Which of the four quadrants holds the centre of mass?"""
    q = torch.randint(0, 4, (bs,))
    img = 0.5 * torch.randn(bs, 8, 8)
    for i in range(bs):
        r, c = divmod(int(q[i]), 2)
        img[i, 4 * r:4 * r + 4, 4 * c:4 * c + 4] += 0.7
    return img.flatten(1), q


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(64, 32)
        self.l2 = nn.Linear(32, 4)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


clf = Classifier()
optimiser = torch.optim.Adam(clf.parameters(), lr=1e-7)  # ORIGIN

history = []
for it in range(60):
    inputs, labels = get_batch()
    loss = F.cross_entropy(clf(inputs), labels)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    history.append(loss.item())

for k in range(0, 60, 10):
    print(f"iters {k:2d}-{k + 9:2d}: {sum(history[k:k + 10]) / 10:.4f}")
