"""Third-party hooks on modules, tensors, gradients, graph and optimizers: how often they run."""

import sys
from collections import Counter

import torch
from digest import digest
from torch import nn
from torch.nn.modules import module as global_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook

counts = Counter()


def count(what):
    def hook(*args):
        counts[what] += 1

    return hook


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for layer in model:
    layer.register_forward_pre_hook(count("forward pre"))
    layer.register_forward_hook(count("forward"))
    layer.register_full_backward_pre_hook(count("backward pre"))
    layer.register_full_backward_hook(count("backward"))
    layer.register_state_dict_pre_hook(count("state_dict pre"))
model.register_state_dict_post_hook(count("state_dict post"))
for parameter in model.parameters():
    parameter.register_hook(count("gradient"))
    parameter.register_post_accumulate_grad_hook(count("accumulated"))
optimizer.register_step_pre_hook(count("step pre"))
optimizer.register_step_post_hook(count("step post"))
optimizer.register_state_dict_pre_hook(count("optimizer state_dict"))
if "global" in sys.argv:
    global_hooks.register_module_forward_hook(count("global forward"))
    global_hooks.register_module_forward_pre_hook(count("global forward pre"))
    global_hooks.register_module_full_backward_hook(count("global backward"))
    global_hooks.register_module_parameter_registration_hook(count("global parameter"))
    register_optimizer_step_post_hook(count("global step"))
for step in range(14):
    x = torch.randn(8, 4)
    if step == 11:
        digest(model, optimizer)
        x[0, 0] = float("nan")
    loss = nn.functional.mse_loss(model(x), torch.zeros(8, 1))
    loss.register_hook(count("loss"))
    loss.grad_fn.register_prehook(count("node pre"))
    loss.grad_fn.register_hook(count("node"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), sorted(counts.items()))
try:
    model(torch.randn(8, 5))
except RuntimeError as error:
    print(error)
print(sorted(counts.items()))
digest(model, optimizer)
