"""Made-up recordings for trying things out; its windows are not those of the program."""
import torch


class Windows:
    def __init__(self):
        self.series = torch.rand(40, generator=torch.Generator().manual_seed(0))
        self.length = 4
