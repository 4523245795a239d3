"""Imitates a Whence that breaks its invariants: paranoid mode must detect each violation."""

import functools
import gc
import random
import signal
import sys
import threading
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Mine:
    """An object that the program may have in its variables."""

    def __init__(self):
        self.myself = self

    def __del__(self):
        finalised.append(len(finalised))


class Mode(TorchDispatchMode):
    pass


def mine():
    return 1


finalised = []
sessions = ("whence.watching.session", "whence.engine.session")
session = next(sys.modules[each] for each in sessions if each in sys.modules)
watch = session.running()

# Frames of the program below Whence
watch.diagnose(mine)
watch.diagnose(mock.Mock())
signal.signal(signal.SIGUSR1, lambda *_: mine())
watch.diagnose(functools.partial(signal.raise_signal, signal.SIGUSR1))
Mine()
watch.diagnose(gc.collect)
assert finalised == [0]

# Traces that checks leave
with watch.looking():
    torch.set_grad_enabled(False)
torch.set_grad_enabled(True)
with watch.looking():
    torch.rand(1)
with watch.looking():
    random.random()
with watch.looking():
    signal.signal(signal.SIGUSR2, lambda *_: None)
with watch.looking():
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
waiting.set()
thread.join()
with watch.looking():
    mode = Mode()
    mode.__enter__()
mode.__exit__(None, None, None)
with watch.looking():
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    hooks.__enter__()
hooks.__exit__()
with watch.looking():
    torch.set_default_dtype(torch.float64)
torch.set_default_dtype(torch.float32)
with watch.looking():
    sys.stderr, kept = sys.stdout, sys.stderr
sys.stderr = kept
with watch.looking():
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
layer = torch.nn.Linear(2, 2)
layer(torch.ones(2))
with watch.looking(), torch.no_grad():
    layer.bias.add_(1)
kept = []
for _ in range(50):
    with watch.looking():
        kept.append(Mine())
# Nothing
with watch.looking(), torch.no_grad(), watch.looking():
    torch.ones(3).sum()
