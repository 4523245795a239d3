"""Graphs by torch's tracers, before and after a few steps of training."""

import sys
import warnings

import torch
from digest import digest
from torch import nn

warnings.simplefilter("ignore")
how = sys.argv[1]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2)

    def forward(self, x):
        h = torch.relu(self.norm(self.first(x)))
        return nn.functional.log_softmax(self.head(h), -1)


def show(when):
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    if how == "export":
        made = torch.export.export(model, (x,)).graph_module
    elif how == "make_fx":
        from torch.fx.experimental.proxy_tensor import make_fx

        made = make_fx(lambda x: model(x).exp())(x)
    elif how == "make_fx_of_gradient":
        from torch.fx.experimental.proxy_tensor import make_fx

        made = make_fx(torch.func.grad(lambda x: model(x).pow(2).sum()))(x)
    elif how == "symbolic_trace":
        made = torch.fx.symbolic_trace(model)
    elif how == "jit_trace":
        made = torch.jit.trace(model, x)
    elif how == "jit_script":
        made = torch.jit.script(model)
    elif how == "functional_call":
        from torch.func import functional_call
        from torch.fx.experimental.proxy_tensor import make_fx

        made = make_fx(lambda p, x: functional_call(model, p, x))(dict(model.named_parameters()), x)
    graph = made.graph
    print(
        when,
        len(list(graph.nodes if hasattr(graph, "nodes") and how[:3] != "jit" else graph.nodes())),
    )
    print(made.code)
    if how[:3] == "jit":
        print(made.inlined_graph.__str__().count("aten::"))


torch.manual_seed(0)
model = Net()
show("before")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = torch.randn(16, 4)
    loss = nn.functional.nll_loss(model(x), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 3:
        show("between")
    print(step, loss.item())
show("after")
digest(model, optimizer)
