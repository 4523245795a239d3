"""Graph regression with plain edge lists: message passing by index_add, read-out by scatter_add. Isolated nodes occur."""
import torch
import torch.nn.functional as F


def random_graph(n, p):
    src, dst = torch.nonzero(torch.rand(n, n) < p, as_tuple=True)
    keep = src != dst
    return torch.randn(n, 4), torch.stack([src[keep], dst[keep]])


def merge(graphs):
    """Disjoint union: one big graph and the graph number of each node."""
    feats, edges, owner, base = [], [], [], 0
    for g, (x, e) in enumerate(graphs):
        feats.append(x)
        edges.append(e + base)
        owner.append(torch.full((len(x),), g))
        base += len(x)
    return torch.cat(feats), torch.cat(edges, dim=1), torch.cat(owner)


def init(shapes):
    return [(torch.randn(o, i) * (1.5 / i**0.5)).requires_grad_() for o, i in shapes]


def sage(x, edge, w_self, w_nb):
    src, dst = edge
    msg = F.linear(x, w_nb)
    agg = torch.zeros_like(msg).index_add(0, dst, msg[src])
    # nodes without a neighbour have an all-zero aggregate; normalize returns zeros for them
    return torch.tanh(F.linear(x, w_self) + F.normalize(agg, dim=-1))


def forward(params, x, edge, owner, n_graphs):
    w1, w2, w3, w4, w_out = params
    h = sage(x, edge, w1, w2)
    h = sage(h, edge, w3, w4)
    pooled = torch.zeros(n_graphs, h.size(1)).scatter_add(0, owner.unsqueeze(1).expand_as(h), h)
    size = torch.bincount(owner, minlength=n_graphs).clamp(min=1)
    return F.linear(pooled / size.unsqueeze(1), w_out).squeeze(1)


def target(graphs):
    return torch.stack([x[:, 0].mean() * 2 + 0.2 * e.size(1) / len(x) for x, e in graphs])


torch.manual_seed(6)
params = init([(16, 4), (16, 4), (16, 16), (16, 16), (1, 16)])
opt = torch.optim.Adam(params, lr=5e-3)
lonely = 0
for step in range(81):
    graphs = [random_graph(int(torch.randint(1, 9, ())), 0.25) for _ in range(12)]  # a graph may be one node, no edge
    x, edge, owner = merge(graphs)
    lonely += len(x) - edge[1].unique().numel()
    loss = F.mse_loss(forward(params, x, edge, owner, len(graphs)), target(graphs))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step:2d}  nodes {len(x):2d}  edges {edge.size(1):3d}  mse {loss.item():.3f}")
print("nodes without an incoming edge:", lonely)
