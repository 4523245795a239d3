import numpy as np


def standardise(rows):
    rows = np.asarray(rows, dtype=np.float32)
    centred = rows - rows.mean(axis=1, keepdims=True)
    scale = rows.std(axis=1, keepdims=True)
    return centred / scale  # ORIGIN
