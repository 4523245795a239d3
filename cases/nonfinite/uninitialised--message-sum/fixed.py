"""Charges of molecules: messages of neighbours are added up in a tensor that nobody has cleared."""
import torch
from torch import nn


class Charges(nn.Module):
    def __init__(self, kinds=5, width=12):
        super().__init__()
        self.kind = nn.Embedding(kinds, width)
        self.message = nn.Linear(width, width)
        self.read = nn.Linear(2 * width, 1)

    def forward(self, kinds, edges):
        atoms = self.kind(kinds)
        source, target = edges
        total = atoms.new_zeros(atoms.shape)
        total = torch.index_add(total, 0, target, self.message(atoms[source]).relu())
        return self.read(torch.cat([atoms, total], dim=1)).squeeze(1)


def molecule(generator, atoms=14, bonds=30):
    kinds = torch.randint(5, (atoms,), generator=generator)
    edges = torch.randint(atoms, (2, bonds), generator=generator)
    charge = torch.zeros(atoms).index_add(0, edges[1], kinds[edges[0]].float() - 2)
    return kinds, edges, charge


torch.use_deterministic_algorithms(True)
generator = torch.Generator().manual_seed(6)
torch.manual_seed(6)
model = Charges()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    kinds, edges, charge = molecule(generator)
    loss = nn.functional.huber_loss(model(kinds, edges), charge)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done")
