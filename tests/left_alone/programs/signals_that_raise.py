"""A time limit by setitimer: each exception that the handler raises must reach the program."""

import gc
import random
import signal
import sys
import time

import torch
from torch import nn
from torch.autograd import grad_mode
from torch.utils._python_dispatch import _len_torch_dispatch_stack


class TimeLimit(BaseException if "base" in sys.argv else Exception):
    pass


kind = KeyboardInterrupt if "keyboard" in sys.argv else TimeLimit
raised = 0


def limit(number, frame):
    """Raise, except while torch's own Python changes the grad mode: plain torch would lose it."""
    global raised
    while frame is not None:
        if frame.f_code.co_name == "_use_grad" or frame.f_code.co_filename == grad_mode.__file__:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            return
        frame = frame.f_back
    raised += 1
    raise kind("time is up")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.norm(x).sum(1, keepdim=True)


def train():
    """Each call has a new model and loader, so that the first checks are made again."""
    model = Net()
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if expired():
                return


def expired():
    """The exception was swallowed: the program continues."""
    return raised > caught + swallowed and time.monotonic() > deadline


caught = swallowed = grad_off = modes = 0
# torch imports much in the first step, and an interrupted import stays broken.
deadline, raised = 0.0, 1
train()
raised = 0
gc.disable()
signal.signal(signal.SIGALRM, limit)
chance = random.Random(0)
torch.manual_seed(0)
for _ in range(80):
    deadline = time.monotonic() + 0.5
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, 0.06))
        train()
        swallowed += 1
    except kind:
        caught += 1
    grad_off += not torch.is_grad_enabled()
    modes += _len_torch_dispatch_stack()
    torch.set_grad_enabled(True)
print("raised", raised, "caught", caught, "swallowed", swallowed, "grad off", grad_off)
print("modes left", modes)
print("handler", signal.getsignal(signal.SIGALRM) is limit)
