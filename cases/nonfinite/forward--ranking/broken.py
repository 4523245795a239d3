"""Recommender: matrix factorisation with pairwise ranking."""
import argparse, contextlib, itertools, logging
import torch
import ranking_broken as ranking

log = logging.getLogger("reco")
EVENTS = {}


def on(name):
    def deco(fn):
        EVENTS.setdefault(name, []).append(fn)
        return fn
    return deco


def fire(name, **kw):
    for fn in EVENTS.get(name, []):
        fn(**kw)


class Tables(torch.nn.Module):
    def __init__(self, nU, nI, k):
        super().__init__()
        self.U = torch.nn.Embedding(nU, k)
        self.I = torch.nn.Embedding(nI, k)
        self.bias = torch.nn.Parameter(torch.zeros(nI))

    def score(self, u, i):
        return torch.einsum("bk,bk->b", self.U(u), self.I(i)) + self.bias[i]

    forward = score


def triples(nU, nI, bs, seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        yield (torch.randint(nU, (bs,), generator=g), torch.randint(nI, (bs,), generator=g),
               torch.randint(nI, (bs,), generator=g))


@on("step")
def report(it, loss, **_):
    if it % 25 == 0:
        print(f"[{it:4d}] {loss.item():.4f}")


@on("step")
def popularity_boost(it, net, **_):
    # slowly push the blockbusters up
    with torch.no_grad():
        net.bias[:3] += 0.9


def cli():
    ap = argparse.ArgumentParser()
    ap.add_argument("--its", type=int, default=180)
    ap.add_argument("--k", type=int, default=12)
    return ap.parse_args()


def fit(o):
    torch.manual_seed(1)
    net = Tables(50, 30, o.k)
    sgd = torch.optim.Adagrad(net.parameters(), lr=0.05)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: print("bye"))
        for it, (u, i, j) in enumerate(itertools.islice(triples(50, 30, 64, 7), o.its)):
            sgd.zero_grad()
            loss = ranking.bpr(net.score(u, i), net.score(u, j))
            loss.backward()
            sgd.step()
            fire("step", it=it, loss=loss, net=net)
    return net


if __name__ == "__main__":
    fit(cli())
