import torch
import torch.nn.functional as F


def hard_triplet_loss(emb, speaker, margin=0.3):
    """Batch-hard triplets: farthest positive, nearest negative."""
    dist = 1 - emb @ emb.t()
    same = speaker.unsqueeze(0) == speaker.unsqueeze(1)
    positive = dist.masked_fill(~same, -1.0).max(dim=1).values
    negative = dist.masked_fill(same, 3.0).min(dim=1).values
    loss = F.relu(positive - negative + margin).mean()
    return loss
