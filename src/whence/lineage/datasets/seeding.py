"""To ask a dataset for a sample with given random numbers. Only ever in a child process."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from whence.lineage.datasets.asking import kept_leaves
from whence.lineage.datasets.generators import generators_in


def fetched(dataset: Any, index: Any, seed: int) -> list[tuple[str, Any]]:
    """The leaves of a sample, made with the random numbers of a seed, also those of generators that the dataset keeps."""
    set_seeds(seed)
    for _, generator in generators_in(("self", dataset)):
        _set_seed(generator, seed)
    return kept_leaves(dataset[index])


def set_seeds(seed: int) -> None:
    """Of the streams of the whole program."""
    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def _set_seed(generator: Any, seed: int) -> None:
    bits = getattr(generator, "bit_generator", None)
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif bits is not None:
        bits.state = type(bits)(seed).state
    else:
        generator.seed(seed)
