# Three label types at once, all lopsided: multi-label tags (2% positives for the rarest), an ordinal grade
# (cumulative link: K-1 binary questions, (N, 1) scores against (K-1,) cut points), and counts that are mostly zero (Poisson).
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.x = rng.standard_normal((n, 8)).astype(np.float32)
        cuts = np.array([0.0, 1.0, 2.0])
        self.tags = (self.x[:, :3] > cuts).astype(np.float32)                 # 50 %, 16 %, 2 %
        score = self.x[:, 3] + 0.5 * self.x[:, 4]
        self.grade = np.digitize(score, [1.0, 1.5, 2.0]).astype(np.int64)     # most are grade 0
        self.count = rng.poisson(np.exp(self.x[:, 5] - 2.0)).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.tags[i], self.grade[i], self.count[i]


class Net(nn.Module):
    def __init__(self, grades=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 48), nn.ReLU())
        self.tags, self.score, self.rate = nn.Linear(48, 3), nn.Linear(48, 1, bias=False), nn.Linear(48, 1)
        self.cuts = nn.Parameter(torch.linspace(-1, 1, grades - 1))

    def forward(self, x):
        h = self.body(x)
        return self.tags(h), self.score(h) - self.cuts, self.rate(h).squeeze(1)


def losses(out, tags, grade, count, pos_weight):
    t, cumulative, log_rate = out
    beyond = (grade.unsqueeze(1) > torch.arange(cumulative.size(1))).float()          # (N, 1) > (K-1,)
    return (
        nn.functional.binary_cross_entropy_with_logits(t, tags, pos_weight=pos_weight),
        nn.functional.binary_cross_entropy_with_logits(cumulative, beyond),
        nn.functional.poisson_nll_loss(log_rate, count),
    )


def main():
    torch.manual_seed(7)
    data = Records(640, 1)
    share = torch.from_numpy(data.tags).mean(0)
    pos_weight = ((1 - share) / share).clamp(max=10.0)
    loader = DataLoader(data, batch_size=64, shuffle=True)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(8):
        sums = torch.zeros(3)
        for x, tags, grade, count in loader:
            parts = losses(net(x), tags, grade, count, pos_weight)
            opt.zero_grad()
            sum(parts).backward()
            opt.step()
            sums += torch.tensor([p.item() for p in parts]) / len(loader)
        if epoch % 2 == 1:
            print(f"epoch {epoch} tags {sums[0]:.3f} grade {sums[1]:.3f} count {sums[2]:.3f}")
    # dropout- and norm-free: nothing to switch to eval mode
    test = Records(400, 2)
    with torch.no_grad():
        tags, cumulative, _ = net(torch.from_numpy(test.x))
    print("share graded 0:", round(float((test.grade == 0).mean()), 2),
          "exact grade:", round(float(((cumulative > 0).sum(1).numpy() == test.grade).mean()), 2),
          "tag accuracy:", round(float(((tags > 0).numpy() == test.tags).mean()), 2))


if __name__ == "__main__":
    main()
