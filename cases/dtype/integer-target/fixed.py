import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_TAGS = 5


class Tagger(nn.Module):
    def __init__(self, in_dim, hidden, num_tags):
        super().__init__()
        self.trunk = nn.GRU(in_dim, hidden, batch_first=True)
        self.tag_head = nn.Linear(hidden, num_tags)

    def forward(self, clip):
        _, last = self.trunk(clip)
        return self.tag_head(last[-1])


def synth_clips(n_batches, batch_size=16, frames=9, in_dim=6):
    g = torch.Generator().manual_seed(5)
    for _ in range(n_batches):
        tag = torch.randint(NUM_TAGS, (batch_size,), generator=g)
        clip = torch.randn(batch_size, frames, in_dim, generator=g)
        clip[:, :, 0] += tag[:, None] * 0.7
        onehot = F.one_hot(tag, NUM_TAGS).float()
        yield clip, onehot


def main():
    torch.manual_seed(5)
    net = Tagger(6, 20, NUM_TAGS)
    criterion = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)

    for it, (clip, onehot) in enumerate(synth_clips(20)):
        scores = net(clip)
        loss = criterion(scores, onehot)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if it % 5 == 0:
            print("iter", it, "bce", round(loss.item(), 4))


if __name__ == "__main__":
    main()
