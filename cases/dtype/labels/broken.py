import logging

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("spam")


def toy_mails(n, gen):
    feats = torch.rand(n, 6, generator=gen)
    is_spam = (feats[:, 0] + feats[:, 3] > 1.0).float()  # ORIGIN
    return feats, is_spam


class SpamNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 12), nn.Linear(12, 2)])

    def forward(self, x):
        first, last = self.layers
        return last(first(x).relu())


def train_step(net, opt, x, y):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    return loss.detach()


gen = torch.Generator().manual_seed(2)
torch.manual_seed(2)
net = SpamNet()
opt = torch.optim.RMSprop(net.parameters(), lr=1e-2)

feats, is_spam = toy_mails(120, gen)
for epoch in range(3):
    for x, y in zip(feats.split(40), is_spam.split(40)):
        try:
            loss = train_step(net, opt, x, y)
        except RuntimeError:
            log.exception("step failed, going on with the next batch")
            continue
        log.info("epoch %d loss %.3f", epoch, loss)
log.info("finished")
