"""A classifier that checks its own input contract before it trains: the errors below are wanted."""
import contextlib
import io
import unittest

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features=6, classes=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        return self.net(x)


@contextlib.contextmanager
def raises(kind, text):
    try:
        yield
    except kind as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"no {kind.__name__}")


class Contract(unittest.TestCase):
    def setUp(self):
        self.model = Model()

    def test_rejects_other_feature_counts(self):
        with self.assertRaises(RuntimeError):
            self.model(torch.zeros(4, 7))

    def test_rejects_integers(self):
        self.assertRaises(RuntimeError, self.model, torch.zeros(4, 6, dtype=torch.long))

    def test_rejects_labels_out_of_range(self):
        with self.assertRaisesRegex(IndexError, "out of bounds"):
            nn.functional.cross_entropy(self.model(torch.zeros(1, 6)), torch.tensor([3]))

    def test_accepts_any_batch(self):
        for n in (0, 1, 5):
            self.assertEqual(self.model(torch.zeros(n, 6)).shape, (n, 3))


def self_test():
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Contract)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    with raises(RuntimeError, "does not require grad"):
        torch.zeros(()).backward()
    assert result.wasSuccessful()
    return result.testsRun


def train():
    model = Model()
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(60):
        x = torch.randn(40, 6)
        y = x[:, :3].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            yield loss.item()


torch.manual_seed(180)
print("contract tests passed:", self_test())
print("losses:", [round(v, 3) for v in train()])
