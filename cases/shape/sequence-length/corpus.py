"""Made-up reviews, batched by length: short buckets come first."""
import torch

VOCAB = 300
BUCKETS = (8, 12, 16, 20, 24, 32, 48)


def bucketed_batches(per_bucket=2, batch_size=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    for length in BUCKETS:
        for _ in range(per_bucket):
            ids = torch.randint(0, VOCAB, (batch_size, length), generator=g)
            yield ids, (ids.float().mean(1) > VOCAB / 2).long()
