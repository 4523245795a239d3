PAD_TAG = -1


def drop_padding(scores, tags):
    """(B, L, C) scores and (B, L) tags -> only the real tokens, flat."""
    flat_scores = scores.reshape(-1, scores.size(-1))
    flat_tags = tags.reshape(-1)
    keep = flat_tags != PAD_TAG
    return flat_scores[keep], flat_tags[keep]
