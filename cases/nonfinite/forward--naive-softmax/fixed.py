"""Bigram language model with its own softmax that hardens over time. Prints a sample now and then."""
import torch

text = "the cat sat on the mat and the rat sat on the cat "
alphabet = sorted(set(text))
stoi = {c: i for i, c in enumerate(alphabet)}
V = len(alphabet)


class Bigram(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(V, V)
        self.beta = 1.0

    def forward(self, ids):
        logits = self.beta * self.table(ids)
        scores = torch.exp(logits - logits.amax(dim=-1, keepdim=True))
        return scores / scores.sum(dim=-1, keepdim=True)


@torch.no_grad()
def sample(model, n=24):
    ids = [stoi["t"]]
    for _ in range(n):
        probs = model(torch.tensor(ids[-1:]))
        ids.append(torch.multinomial(probs[0], 1).item())
    return "".join(alphabet[i] for i in ids)


torch.manual_seed(1)
ids = torch.tensor([stoi[c] for c in text])
model = Bigram()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

for step in range(70):
    probs = model(ids[:-1])
    hit = probs[torch.arange(len(ids) - 1), ids[1:]]
    loss = -(hit + 1e-12).log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.beta *= 1.06
    if step % 10 == 9:
        print(f"{step:3d} {loss.item():.3f} {sample(model)!r}")
