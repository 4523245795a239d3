"""Scans of handwritten digits, kept as one array of bytes a writer."""
import numpy as np


class Shelf:
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.npz"))

    def page(self, number):
        with np.load(self.files[number]) as kept:
            strokes, digit = kept["strokes"], int(kept["digit"])
        strokes = strokes.astype(np.float32)
        strokes /= 255
        return strokes, digit
