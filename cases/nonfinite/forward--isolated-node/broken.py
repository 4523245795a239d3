"""Classify the nodes of random graphs by their neighbours' mean; plain SGD."""
import torch
import torch.nn.functional as F


def random_graph(g, n=40, p=0.12):
    adj = (torch.rand(n, n, generator=g) < p).float()
    adj = torch.triu(adj, 1)
    adj = adj + adj.T
    feats = torch.randn(n, 8, generator=g)
    target = (adj @ feats[:, :1] > 0).long().squeeze(1)
    return adj, feats, target


def init(g):
    def glorot(i, o):
        return (torch.randn(i, o, generator=g) * (2 / (i + o)) ** 0.5).requires_grad_()

    return {"w1": glorot(16, 32), "w2": glorot(64, 32), "out": glorot(32, 2)}


def mean_neighbours(adj, h):
    degree = adj.sum(1, keepdim=True)
    return adj @ h / degree  # ORIGIN


def forward(params, adj, x):
    h = torch.cat([x, mean_neighbours(adj, x)], 1) @ params["w1"]
    h = F.elu(h)
    h = torch.cat([h, mean_neighbours(adj, h)], 1) @ params["w2"]
    return F.elu(h) @ params["out"]


def sgd(params, lr):
    with torch.no_grad():
        for p in params.values():
            p -= lr * p.grad
            p.grad = None


def main():
    g = torch.Generator().manual_seed(1)
    params = init(g)
    graphs = [random_graph(g, n=int(torch.randint(40, 70, (1,), generator=g))) for _ in range(40)]
    for epoch in range(3):
        running = 0.0
        for adj, x, y in graphs:
            loss = F.cross_entropy(forward(params, adj, x), y)
            loss.backward()
            sgd(params, 0.05)
            running += loss.item()
        print("epoch", epoch, "loss", round(running / len(graphs), 4))


if __name__ == "__main__":
    main()
