"""Warms the parent that every forked child begins from."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy
import torch
import torch.optim
import torch.utils.data

from whence.rules.rule import all_rules

torch.set_num_threads(1)
all_rules()
numpy.zeros(1)
