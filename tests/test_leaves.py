"""Batches of every structure that a collate_fn may return, walked to their leaves and read."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from forking import in_child, whence_run
from torch import nn
from torch.utils.data import DataLoader, Dataset

import whence
from whence.data.leaves import leaves_of as read_leaves_of
from whence.ledgers.batches import BatchLedger
from whence.ledgers.inputs import InputLedger
from whence.tape.batches import Batch, Form, LoaderInfo, leaves_of, signature_of
from whence.watching.session import running

IMAGE = torch.arange(12.0).reshape(3, 4)
LABEL = torch.arange(3)


class Named(NamedTuple):
    image: torch.Tensor
    label: torch.Tensor


Old = namedtuple("Old", ["image", "label"])


@dataclass
class Held:
    image: torch.Tensor
    label: Any = None


@dataclass(slots=True, frozen=True)
class Outer:
    inner: Held
    name: str


class Encoding(UserDict[str, Any]):
    """A batch as tokenizers return it."""


class Image:
    """An image that is read like PIL's, through numpy's array interface."""

    def __init__(self, pixels: Any) -> None:
        self._pixels = pixels

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return dict(self._pixels.__array_interface__)


STRUCTURES: list[tuple[Any, list[str]]] = [
    (IMAGE, [""]),
    ([IMAGE, LABEL], ["[0]", "[1]"]),
    ((IMAGE, [LABEL, IMAGE]), ["[0]", "[1][0]", "[1][1]"]),
    (
        {"image": IMAGE, "target": {"boxes": [IMAGE], 3: LABEL}},
        ["['image']", "['target']['boxes'][0]", "['target'][3]"],
    ),
    (OrderedDict(a=IMAGE, b=LABEL), ["['a']", "['b']"]),
    (Encoding({"ids": LABEL, "mask": LABEL}), ["['ids']", "['mask']"]),
    (Named(IMAGE, LABEL), [".image", ".label"]),
    (Old(IMAGE, {"a": LABEL}), [".image", ".label['a']"]),
    (Held(IMAGE, LABEL), [".image", ".label"]),
    ([Outer(Held(IMAGE), "x"), LABEL], ["[0].inner.image", "[0].inner.label", "[0].name", "[1]"]),
    ((IMAGE, None, "word", b"raw", 3), ["[0]", "[1]", "[2]", "[3]", "[4]"]),
    (
        {"image": np.zeros((3, 2)), "name": ["a", "b", "c"]},
        ["['image']", "['name'][0]", "['name'][1]", "['name'][2]"],
    ),
    ([IMAGE, Held], ["[0]", "[1]"]),
    ({}, []),
    ([], []),
]


@pytest.mark.parametrize(("tree", "paths"), STRUCTURES)
def test_leaves_have_paths_as_one_would_write_them(tree: Any, paths: list[str]) -> None:
    leaves = leaves_of(tree)
    assert [path for path, _ in leaves] == paths
    for path, leaf in leaves:
        assert eval(f"tree{path}") is leaf


@pytest.mark.parametrize(("tree", "paths"), STRUCTURES[:10])
def test_what_reads_numbers_walks_in_the_same_way(tree: Any, paths: list[str]) -> None:
    assert [leaf.path for leaf in read_leaves_of(tree)] == paths


def test_a_long_list_is_a_leaf() -> None:
    assert leaves_of([["a"] * 64, IMAGE])[0] == ("[0]", ["a"] * 64)


def test_signatures_know_tensors_and_arrays_and_nothing_else() -> None:
    tree = {
        "x": IMAGE,
        "y": np.zeros((3, 2), dtype=np.int16),
        "name": "a",
        "nothing": None,
        "one": np.float32(2),
    }
    assert signature_of(leaves_of(tree)) == (
        ("['x']", (3, 4), torch.float32),
        ("['y']", (3, 2), np.dtype("int16")),
        ("['one']", (), np.dtype("float32")),
    )
    hash(signature_of(leaves_of(tree)))


def test_a_batch_like_the_last_is_told_from_one_that_is_not() -> None:
    form = Form()
    form.learn([IMAGE, LABEL])
    first = form.signature
    assert form.is_like_last([IMAGE + 1, LABEL])
    assert form.paths == ("[0]", "[1]")
    others = [
        (IMAGE, LABEL),
        [IMAGE],
        [IMAGE, LABEL, LABEL],
        [IMAGE[:2], LABEL],
        [IMAGE.double(), LABEL],
        [IMAGE, LABEL.tolist()],
        [IMAGE, [LABEL]],
        {"a": IMAGE, "b": LABEL},
        None,
    ]
    for other in others:
        assert not form.is_like_last(other), other
    form.learn([IMAGE + 1, LABEL])
    assert form.signature is first
    for other in others:
        form.learn(other)
        tensors = [
            (path, leaf) for path, leaf in leaves_of(other) if isinstance(leaf, torch.Tensor)
        ]
        assert [
            (path, id(leaf)) for path, leaf in zip(form.paths, form.tensors(other), strict=True)
        ] == [(path, id(leaf)) for path, leaf in tensors]
        assert form.signature == signature_of(leaves_of(other))


def noted(batches: list[Any]) -> Any:
    """The ledger's entry after one epoch of these batches."""
    ledger, info = BatchLedger(), LoaderInfo(object(), ())
    ledger.epoch_began(info, (), {})
    for number, data in enumerate(batches):
        assert ledger.count(info)
        ledger.note(Batch(info, number, [number * 3 + each for each in range(3)]), data)
    return ledger.entry_of(info)


def statistics(entry: Any, path: str) -> Any:
    return [
        (each.mean, each.std, each.low, each.high)
        for each in entry.summary.leaves[path].array.numbers.facts()
    ]


def test_arrays_of_numpy_are_noted_like_tensors() -> None:
    rows = [(torch.rand(3, 2, 4, 4) * 9, torch.tensor([0, 2, 1]) + each) for each in range(4)]
    tensors = noted([{"x": x, "y": y, "name": "a"} for x, y in rows])
    read_only = [x.numpy().copy() for x, _ in rows]
    for each in read_only:
        each.setflags(write=False)
    arrays = noted(
        [{"x": x, "y": y.numpy(), "name": "a"} for x, (_, y) in zip(read_only, rows, strict=True)]
    )
    lists = noted([{"x": x, "y": y.tolist(), "name": "a"} for x, y in rows])
    for other in (arrays, lists):
        assert other.epochs[0].marks == tensors.epochs[0].marks
        assert [each.tolist() for each in other.epochs[0].labels] == [
            each.tolist() for each in tensors.epochs[0].labels
        ]
        assert other.pixels == tensors.pixels == {"['x']": False}
        for path in ("['x']", "['y']"):
            assert statistics(other, path) == statistics(tensors, path)
    assert len(tensors.epochs[0].labels) == 4
    assert len(tensors.epochs[0].marks) == 12


def test_pictures_words_and_nothing_do_no_harm() -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    entry = noted([[[Image(pixels)] * 3, LABEL, None, ["a", "b", "c"]]])
    assert [each.tolist() for each in entry.epochs[0].labels] == [[0, 1, 2]]
    (part,) = [leaf.part for leaf in read_leaves_of(Image(pixels))]
    assert part is not None
    assert part.numbers is not None
    assert part.numbers.tolist() == pixels.tolist()


def test_pictures_of_pil() -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    (part,) = [leaf.part for leaf in read_leaves_of(image.fromarray(pixels))]
    assert part is not None
    assert part.numbers is not None
    assert part.numbers.tolist() == pixels.tolist()


class Rows(Dataset[Any]):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return {
            "x": np.full(3, index, dtype=np.float32),
            "deep": {"name": f"row {index}", "y": index % 4, "none": None},
        }


def as_arrays(samples: list[Any]) -> Any:
    return {
        "x": np.stack([each["x"] for each in samples]),
        "deep": Held(
            np.array([each["deep"]["y"] for each in samples]),
            [each["deep"]["name"] for each in samples],
        ),
    }


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_arrays_is_known_by_their_shapes(workers: int, tmp_path: Path) -> None:
    def body() -> None:
        with whence.watch() as watch:
            for batch in DataLoader(Rows(), 8, num_workers=workers, collate_fn=as_arrays):
                session = running()
                assert session is not None
                current = session.loaders.current
                assert current is not None
                assert current.indices == batch["x"][:, 0].tolist()
                assert current.signature == (
                    ("['x']", (8, 3), np.dtype("float32")),
                    ("['deep'].image", (8,), np.dtype("int64")),
                )
            entry = session.auditor.batches.entry_of(current.info)
            assert torch.cat(entry.epochs[0].labels).tolist() == [each % 4 for each in range(24)]
            assert len(entry.epochs[0].marks) == 24
        assert watch.report.not_watched == ()

    assert (ran := in_child(body, cwd=tmp_path)).code == 0, ran.stderr


SORTED = """
import numpy as np, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Readings(Dataset):
    def __init__(self):
        self.y = np.repeat(np.arange(4), 32)
        noise = np.random.default_rng(0).normal(size=(128, 6))
        self.x = (noise + self.y[:, None]).astype(np.float32)
    def __len__(self):
        return 128
    def __getitem__(self, index):
        return self.x[index], self.y[index]

def collate(samples):
    return {"x": np.stack([x for x, _ in samples]), "y": np.array([y for _, y in samples])}

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(Readings(), batch_size=16, collate_fn=collate%s)
for _ in range(4):
    for batch in loader:
        optimizer.zero_grad()
        x, y = torch.from_numpy(batch["x"]), torch.from_numpy(batch["y"])
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("options", "rules"), [("", ["data/sorted"]), (", shuffle=True", [])], ids=["", "shuffled"]
)
def test_labels_in_arrays_are_seen_to_be_sorted(
    options: str, rules: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SORTED % options)
    ran = whence_run(script, cwd=tmp_path)
    assert ran.code == 0, ran.stderr
    assert [each["rule"] for each in ran.loud] == rules


def test_an_evaluation_is_compared_whatever_was_run_in_training_mode_before() -> None:
    model, ledger = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), InputLedger()
    for _ in range(3):
        ledger.note(model, (torch.randn(40, 3),), source=7)
    with torch.no_grad():
        assert not ledger.note(model, (torch.randn(40, 3),), source=7)
        model.eval()
        assert ledger.note(model, (torch.randn(40, 3),), source=7)
    assert ledger.fresh is not None
    assert not ledger.fresh[1].in_training_mode
