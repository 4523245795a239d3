"""Loops without a loader: orders, exhausted iterators, sequences that are reordered alone."""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path
from textwrap import dedent
from typing import Any

import executing
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from whence.ledgers.labels import Stream
from whence.lineage.datasets.pairing import parting_of
from whence.lineage.datasets.windows import target_within
from whence.lineage.loops.iterators import is_exhausted
from whence.lineage.loops.pairings import pairings_in
from whence.lineage.loops.reordering import apart
from whence.rules.data.by_hand import class_by_class
from whence.tape.batches import LoaderInfo


def _stream(labels: list[float], size: int, marks: list[float]) -> Stream:
    batches = [labels[each : each + size] for each in range(0, len(labels), size)]
    repeated = [marks[number % len(marks)] for number in range(len(batches))]
    return Stream((), batches, repeated, steps=set(range(len(batches))))


SORTED = [0.0] * 16 + [1.0] * 16 + [2.0] * 16


def test_class_by_class_is_seen_from_the_second_epoch_on() -> None:
    marks = [float(each) for each in range(12)]
    assert class_by_class(_stream(SORTED * 2, 4, marks)) == 3
    assert class_by_class(_stream(SORTED, 4, marks)) == 0


def test_labels_that_come_and_go_with_other_inputs_are_no_epochs() -> None:
    assert class_by_class(_stream(SORTED * 3, 4, [float(each) for each in range(99)])) == 0


def test_an_evaluation_with_gradients_on_is_not_training() -> None:
    stream = _stream(SORTED * 2, 4, [float(each) for each in range(12)])
    stream.steps = {9, 18}
    assert class_by_class(stream) == 0


def test_mixed_labels_are_not_sorted() -> None:
    assert (
        class_by_class(_stream([0.0, 1.0, 2.0] * 32, 4, [float(each) for each in range(12)])) == 0
    )


class _Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(range(4))


def _iterators(file: Any) -> dict[str, Any]:
    def numbers() -> Any:
        yield from range(3)

    file.seek(0)
    loader = DataLoader(TensorDataset(torch.arange(6)), batch_size=2)
    return {
        "generator": numbers(),
        "list": iter([1, 2]),
        "zip": zip([1, 2], numbers(), strict=False),
        "short zip": zip(range(99), [1, 2], strict=False),
        "map": map(str, [1, 2]),
        "filter": filter(None, [0, 1, 2]),
        "enumerate": enumerate(numbers()),
        "csv": csv.reader(file),
        "file": file,
        "loader": iter(loader),
        "stream": iter(DataLoader(_Stream(), batch_size=2)),
        "zip of loaders": zip(loader, loader, strict=True),
        "enumerated zip": enumerate(zip(numbers(), [1, 2, 3, 4], strict=False)),
    }


KINDS = ("generator", "list", "zip", "short zip", "map", "filter", "enumerate", "csv", "file",
         "loader", "stream", "zip of loaders", "enumerated zip")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_iterator_is_known_to_be_used_up_and_nothing_is_taken_from_it(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows"
    path.write_text("1\n2\n3\n")
    with path.open() as file:
        size = len(list(_iterators(file)[kind]))
        iterator = _iterators(file)[kind]
        next(iterator)
        if kind not in ("csv", "file"):
            # A short file is entirely in memory once its first line was read.
            assert not is_exhausted(iterator)
        assert len(list(iterator)) == size - 1
        assert is_exhausted(iterator)


def test_endless_and_unknown_iterators_are_never_used_up() -> None:
    import itertools

    assert not is_exhausted(itertools.count())
    assert not is_exhausted(itertools.cycle([1]))
    assert not is_exhausted(io.StringIO("a"))
    assert not is_exhausted(None)


def _apart(source: str, folder: Path) -> tuple[str, int] | None:
    path = folder / "program.py"
    path.write_text(dedent(source))
    tree = executing.Source.for_filename(str(path)).tree
    assert isinstance(tree, ast.Module)
    for scope in (tree, *(each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))):
        for pairing, one, other in pairings_in(scope, {"Pairs": (0, 1)}):
            found = apart(one, other, pairing, scope)
            if found is not None:
                return found.moved, getattr(found.change.node, "lineno", 0)
    return None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x, y = load()\nrandom.shuffle(x)\nzip(x, y)", ("x", 2)),
        ("x, y = load()\ny.sort()\nzip(x, y)", ("y", 2)),
        (
            "x, y = load()\nx = x[torch.randperm(9)]\ny = y[torch.randperm(9)]\n"
            "TensorDataset(x, y)",
            ("y", 3),
        ),
        ("x, y = load()\nx = [each for each in x if each]\nzip(x, y)", ("x", 2)),
        ("x = np.load(a)\ny = np.load(b)\nkeep = x[:, 0] > 0\nx = x[keep]\nPairs(x, y)", ("x", 4)),
        ("t = read()\nx = t[:, :-1]\ny = t[:, -1]\nrng.shuffle(x)\nzip(x, y)", ("x", 4)),
        ("def f(x, y):\n    order = x.argsort()\n    x = x[order]\n    return zip(x, y)", ("x", 3)),
        (
            "y = labels()\nx = centres[y] + noise\nx = x / 2\nrng.shuffle(x)\n"
            "zip(torch.tensor(x), y)",
            ("x", 4),
        ),
        ('t = read()\nx = t["a"].dropna()\ny = t["b"].to_numpy()[: len(x)]\nzip(x, y)', ("x", 2)),
        ("p = read()\nx = [a for a, _ in p if a]\ny = [b for _, b in p]\nzip(x, y)", ("x", 2)),
        (
            "p = read()\nx = [a for a, _ in p]\ny = [b for _, b in p]\n"
            "k = [n for n, a in enumerate(x) if a]\n"
            "x = [x[n] for n in k]\nzip(x, y)",
            ("x", 5),
        ),
    ],
)
def test_what_is_reordered_alone_is_found(
    source: str, expected: tuple[str, int], tmp_path: Path
) -> None:
    assert _apart(source, tmp_path) == expected


@pytest.mark.parametrize(
    "source",
    [
        "x, y = load()\np = torch.randperm(9)\nx = x[p]\ny = y[p]\nzip(x, y)",
        "x, y = load()\nrandom.shuffle(x)\ny = label(x)\nzip(x, y)",
        "x, y = load()\ny = y[torch.randperm(9)]\nzip(x, y)",
        "x, y = load()\nnp.random.seed(0)\nnp.random.shuffle(x)\nnp.random.seed(0)\n"
        "np.random.shuffle(y)\nzip(x, y)",
        "x, y = load()\nrandom.Random(1).shuffle(x)\nrandom.Random(1).shuffle(y)\nzip(x, y)",
        "x, y = load()\nif plain:\n    x.sort()\nzip(x, y)",
        "x, y = load()\nx, y = shuffle(x, y)\nzip(x, y)",
        "x, y = load()\nshuffle_both(x, y)\nx.sort()\nzip(x, y)",
        "x = sorted(glob(a))\ny = glob(b)\nzip(x, y)",
        "x, y = load()\nx = x[:, torch.randperm(9)]\nzip(x, y)",
        "x, y = load()\nx = x[:80]\ny = y[:n]\nzip(x, y)",
        "x = load()\nr = sorted(x)\nzip(x, r)",
        "names = listing()\nscores = torch.randn(9)\nnames.sort()\nzip(names, scores)",
        "p = list(m.parameters())\ng = torch.autograd.grad(f, p)\n"
        "g = [e for e in g if e is not None]\nzip(p, g)",
        "x = load()\np = torch.randperm(len(x))\nx = x[p]\nzip(x, p)",
        't = read()\nt = t.dropna()\nx = t["a"]\ny = t["b"]\nzip(x, y)',
        't = read()\nt = t[t["a"] > 0]\nx = t[["a", "c"]].to_numpy()\n'
        'y = t["b"].to_numpy()\nzip(x, y)',
        't = read()\nx = t["a"][t["k"] == 1]\ny = t["b"][t["k"] == 1]\nzip(x, y)',
        "p = read()\nx = [a for a in p if a]\ny = [a for a in p]\nzip(x, y)",
        "p = read()\nx = [a for a, k in p if k]\ny = [a for a, k in p if not k]\nzip(x, y)",
        'd = read()\nx = d["x"]\ny = d["y"]\nx = x[np.where(x > 0, x, 0)]\nzip(x, y)',
        "x, y = load()\nx = x[i & 255]\nzip(x, y)",
    ],
)
def test_what_goes_together_or_is_not_certain_is_left_alone(source: str, tmp_path: Path) -> None:
    assert _apart(source, tmp_path) is None


def _parting(collate: Any) -> Any:
    samples = [
        (torch.full((length, 2), float(length)), length % 3) for length in (3, 7, 4, 9, 5, 8)
    ]
    loader = DataLoader(samples, batch_size=6, collate_fn=collate)  # type: ignore[arg-type]
    return parting_of(LoaderInfo(loader, ()), list(range(6)))


def _padded(sequences: Any) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)


def test_a_batch_that_is_taken_apart_is_seen() -> None:
    found = _parting(
        lambda batch: (
            _padded(sorted((x for x, _ in batch), key=len)),
            torch.tensor([y for _, y in batch]),
        )
    )
    assert (found.moved, found.kept, found.size) == ("0", "1", 6)


def test_a_batch_in_another_order_as_a_whole_is_right() -> None:
    def collate(batch: Any) -> Any:
        batch = sorted(batch, key=lambda each: len(each[0]))
        return _padded(x for x, _ in batch), torch.tensor([y for _, y in batch])

    assert _parting(collate) is None


def test_a_batch_that_says_its_order_is_right() -> None:
    def collate(batch: Any) -> Any:
        order = sorted(range(len(batch)), key=lambda each: len(batch[each][0]))
        return (
            _padded(batch[each][0] for each in order),
            torch.tensor([y for _, y in batch]),
            torch.tensor(order),
        )

    assert _parting(collate) is None


class Windows:
    """Windows of four values of a series, each with the value `ahead` steps after its start."""

    def __init__(self, ahead: int) -> None:
        self.series = torch.rand(40, generator=torch.Generator().manual_seed(0))
        self.ahead = ahead

    def __len__(self) -> int:
        return 36

    def __getitem__(self, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        wanted = self.series[start + self.ahead]
        return self.series[start : start + 4], wanted


def test_a_target_within_its_window_is_found_at_its_line_and_one_behind_it_is_not() -> None:
    within = target_within(Windows(ahead=3))
    assert within is not None
    assert (within.place, within.length) == (3, 4)
    assert within.spot is not None
    assert "self.ahead" in within.spot.code
    assert target_within(Windows(ahead=4)) is None


def test_single_rows_that_have_their_target_in_them_are_no_windows() -> None:
    rows = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
    assert target_within([(row, row[2]) for row in rows]) is None
