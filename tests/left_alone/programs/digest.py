"""Print one line that changes if any weight, buffer or random stream differs."""

import hashlib
import random

import numpy
import torch

random.seed(0)
numpy.random.seed(0)


def digest(*things):
    """Hash the state of modules, optimizers and tensors, and the three random states."""
    sha = hashlib.sha256()
    for thing in things:
        _add(sha, thing.state_dict() if hasattr(thing, "state_dict") else thing)
    for state in (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()):
        sha.update(repr(state).encode())
    print("digest", sha.hexdigest()[:16])


def _add(sha, thing):
    if isinstance(thing, torch.Tensor):
        full = thing.full_tensor() if hasattr(thing, "full_tensor") else thing
        plain = full.detach().cpu().contiguous().reshape(-1)
        sha.update(f"{tuple(full.shape)} {full.dtype}".encode())
        sha.update(bytes(plain.view(torch.uint8).tolist()))
    elif isinstance(thing, dict):
        for key, value in thing.items():
            sha.update(repr(key).encode())
            _add(sha, value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            _add(sha, value)
    else:
        sha.update(repr(thing).encode())
