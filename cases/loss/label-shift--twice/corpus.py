import torch


def sample_chain(n, length, vocab, generator):
    """Text stand-in: a Markov chain that never repeats a symbol twice in a row."""
    logits = 2.0 * torch.randn(vocab, vocab, generator=generator)
    logits.fill_diagonal_(float("-inf"))
    table = logits.softmax(dim=1)
    ids = [torch.randint(0, vocab, (n,), generator=generator)]
    for _ in range(length - 1):
        ids.append(torch.multinomial(table[ids[-1]], 1, generator=generator).squeeze(1))
    return torch.stack(ids, dim=1)
