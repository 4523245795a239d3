"""Every form of DataLoader: a batch's samples and worker are known, and nothing is changed."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forking import in_child, whence_run
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    get_worker_info,
)

import whence
from whence.tape.indices import listed
from whence.watching.session import running

SIZE = 24
IN_ORDER = "in_order" in inspect.signature(DataLoader.__init__).parameters
needs_in_order = pytest.mark.skipif(not IN_ORDER, reason="this torch always keeps the order")


def here() -> int:
    """The worker that this is, or -1."""
    info = get_worker_info()
    return info.id if info is not None else -1


class Truth(Dataset[torch.Tensor]):
    """Samples hold their index, worker and a random value. The first worker is slow."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: Any) -> torch.Tensor:
        if here() == 0:
            time.sleep(0.01)
        return torch.tensor([int(index), here(), int(torch.randint(0, 1000, ()))])


class Several(Truth):
    """A dataset that fetches several samples at once."""

    def __getitem__(self, index: Any) -> torch.Tensor:
        return torch.stack([Truth.__getitem__(self, each) for each in index])


class Keyed(Truth):
    def __getitem__(self, index: Any) -> torch.Tensor:
        row, column = index
        return Truth.__getitem__(self, row * 6 + column)


class Stream(IterableDataset[torch.Tensor]):
    """The second worker has three times as many samples."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(6 if here() == 0 else 18):
            yield torch.tensor([number, here(), 0])


class Backwards(Sampler[Any]):
    """A sampler that yields indices as tensors."""

    def __iter__(self) -> Iterator[Any]:
        return iter(torch.arange(SIZE - 1, -1, -1))

    def __len__(self) -> int:
        return SIZE


class Cells(Sampler[tuple[int, int]]):
    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter([(row, column) for row in range(4) for column in range(6)])


class OneList(Sampler[list[int]]):
    """A batch sampler that reuses one list for every batch."""

    def __init__(self, kind: Callable[[list[int]], Any] = list) -> None:
        self.kind = kind

    def __iter__(self) -> Iterator[Any]:
        batch: list[int] = []
        for index in range(0, SIZE, 3):
            batch[:] = [index, index + 2, index + 1]
            yield batch if self.kind is list else self.kind(batch)

    def __len__(self) -> int:
        return SIZE // 3


def each_in_turn(batch: list[int]) -> Iterator[int]:
    return iter(list(batch))


FORMS: dict[str, Callable[[], DataLoader[Any]]] = {
    "plain": lambda: DataLoader(Truth(), 4),
    "shuffled": lambda: DataLoader(Truth(), 5, shuffle=True),
    "workers": lambda: DataLoader(Truth(), 4, shuffle=True, num_workers=2),
    "persistent": lambda: DataLoader(
        Truth(), 4, shuffle=True, num_workers=2, persistent_workers=True
    ),
    "one sample at a time": lambda: DataLoader(Truth(), batch_size=None, shuffle=True),
    "one sample at a time, workers": lambda: DataLoader(Truth(), batch_size=None, num_workers=2),
    "several at once": lambda: DataLoader(
        Several(),
        batch_size=None,
        sampler=BatchSampler(RandomSampler(range(SIZE)), 5, drop_last=False),
    ),
    "own sampler": lambda: DataLoader(Truth(), 4, sampler=Backwards(), num_workers=2),
    "own batch sampler": lambda: DataLoader(Truth(), batch_sampler=OneList()),
    "batches that are tuples": lambda: DataLoader(
        Truth(), batch_sampler=OneList(tuple), num_workers=2
    ),
    "batches that are tensors": lambda: DataLoader(Truth(), batch_sampler=OneList(torch.tensor)),
    "batches that are arrays": lambda: DataLoader(
        Truth(), batch_sampler=OneList(np.array), num_workers=2
    ),
}
if IN_ORDER:
    out_of_order: Any = {"num_workers": 2, "in_order": False}
    FORMS["out of order"] = lambda: DataLoader(Truth(), 4, shuffle=True, **out_of_order)
    FORMS["out of order, persistent"] = lambda: DataLoader(
        Truth(), 4, persistent_workers=True, **out_of_order
    )
    FORMS["out of order, one sample at a time"] = lambda: DataLoader(
        Truth(), batch_size=None, **out_of_order
    )

STARTED: dict[str, Callable[[], DataLoader[Any]]] = {
    "spawn": lambda: DataLoader(Truth(), 4, num_workers=2, multiprocessing_context="spawn"),
    "forkserver": lambda: DataLoader(
        Truth(), 4, num_workers=2, multiprocessing_context="forkserver"
    ),
}
if IN_ORDER:
    STARTED["spawn, out of order"] = lambda: DataLoader(
        Truth(), 4, multiprocessing_context="spawn", shuffle=True, **out_of_order
    )


def latest_batch() -> tuple[int, list[Any] | None, int]:
    """What the watch knows of the latest batch: its number, its indices, its worker."""
    session = running()
    assert session is not None
    batch = session.loaders.current
    assert batch is not None
    return batch.number, batch.indices, -1 if batch.worker is None else batch.worker


def gone_through(
    make: Callable[[], DataLoader[Any]], epochs: int, watched: bool
) -> list[list[Any]]:
    """The batches of some epochs, and the next random number."""
    torch.manual_seed(3)
    loader = make()
    found = []
    for _ in range(epochs):
        for batch in loader:
            if watched:
                rows = batch.reshape(-1, 3)
                number, indices, worker = latest_batch()
                assert (number, indices) == (len(found), rows[:, 0].tolist())
                assert {worker} == set(rows[:, 1].tolist())
            found.append(batch.tolist())
    found.append(torch.rand(2).tolist())
    return found


def check(make: Callable[[], DataLoader[Any]], epochs: int, ordered: bool, cwd: Path) -> None:
    def body() -> None:
        with whence.watch() as watch:
            seen = gone_through(make, epochs, watched=True)
        assert watch.report.not_watched == ()
        plain = gone_through(make, epochs, watched=False)
        # The order depends on which worker is faster, with and without the watch.
        alike = seen == plain if ordered else told_apart(seen) == told_apart(plain)
        assert alike

    ran = in_child(body, cwd=cwd)
    assert ran.code == 0, ran.stderr


def told_apart(found: list[list[Any]]) -> Any:
    """Everything that does not depend on which worker was faster."""
    *batches, drawn = found
    return sorted(torch.tensor(batch).reshape(-1, 3)[:, 0].tolist() for batch in batches), drawn


@pytest.mark.parametrize("form", FORMS)
def test_indices_and_workers_are_those_of_the_batch(form: str, tmp_path: Path) -> None:
    check(FORMS[form], 2, "out of order" not in form, tmp_path)


@pytest.mark.parametrize("form", STARTED)
def test_workers_that_are_not_forked(form: str, tmp_path: Path) -> None:
    check(STARTED[form], 1, "out of order" not in form, tmp_path)


def test_an_index_that_is_a_tuple_is_one_index(tmp_path: Path) -> None:
    def body() -> None:
        with whence.watch():
            for batch in DataLoader(Keyed(), batch_size=None, sampler=Cells()):
                assert latest_batch()[1] == [divmod(int(batch[0]), 6)]

    assert (ran := in_child(body, cwd=tmp_path)).code == 0, ran.stderr


def test_indices_that_can_be_gone_through_only_once_are_left_to_the_dataset(tmp_path: Path) -> None:
    def body() -> None:
        with whence.watch() as watch:
            found = [
                (batch[:, 0].tolist(), latest_batch()[1])
                for batch in DataLoader(Truth(), batch_sampler=OneList(each_in_turn))
            ]
        assert [rows for rows, _ in found] == [
            [each, each + 2, each + 1] for each in range(0, SIZE, 3)
        ]
        assert {known is None for _, known in found} == {True}
        assert watch.report.not_watched == ()

    assert (ran := in_child(body, cwd=tmp_path)).code == 0, ran.stderr


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"in_order": False}, marks=needs_in_order)],
    ids=["", "out of order"],
)
@pytest.mark.parametrize("persistent", [False, True], ids=["", "persistent"])
def test_batches_of_a_stream_have_a_worker_and_no_indices(
    options: Any, persistent: bool, tmp_path: Path
) -> None:
    """One worker has fewer samples than the other: they do not alternate."""

    def body() -> None:
        with whence.watch():
            loader = DataLoader(
                Stream(), 3, num_workers=2, persistent_workers=persistent, **options
            )
            for _ in range(2):
                workers = []
                for batch in loader:
                    _, indices, worker = latest_batch()
                    assert indices is None
                    assert {worker} == set(batch[:, 1].tolist())
                    workers.append(worker)
                assert (workers.count(0), workers.count(1)) == (2, 6)

    assert (ran := in_child(body, cwd=tmp_path)).code == 0, ran.stderr


def test_an_epoch_that_was_left_does_not_mix_with_the_next(tmp_path: Path) -> None:
    def body() -> None:
        with whence.watch():
            loader = DataLoader(Truth(), 4, num_workers=2, persistent_workers=True, shuffle=True)
            for stop in (1, 3, 99):
                for number, batch in enumerate(loader):
                    assert latest_batch()[1] == batch[:, 0].tolist()
                    assert latest_batch()[2] == int(batch[0, 1])
                    if number == stop:
                        break

    assert (ran := in_child(body, cwd=tmp_path)).code == 0, ran.stderr


def test_an_iterator_from_before_the_watch_goes_on(tmp_path: Path) -> None:
    def body() -> None:
        loader = DataLoader(Truth(), 4)
        begun = iter(loader)
        next(begun)
        with whence.watch() as watch:
            assert [batch[0, 0].item() for batch in begun] == [4, 8, 12, 16, 20]
            assert [(batch[:, 0].tolist(), latest_batch()[1])[0] for batch in loader][-1] == [
                20,
                21,
                22,
                23,
            ]
            assert latest_batch()[1] == [20, 21, 22, 23]
        assert watch.report.not_watched == ()

    assert (ran := in_child(body, cwd=tmp_path)).code == 0, ran.stderr


FAILS = """
import time, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

class Readings(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if get_worker_info().id == 0:
            time.sleep(0.01)
        row = torch.arange(4.0) + index
        if index == 29:
            return torch.tensor([float(word) for word in "1 2 x".split()])
        return row

if __name__ == "__main__":
    torch.manual_seed(0)
    for batch in DataLoader(Readings(), batch_size=4, num_workers=2, shuffle=True, in_order=False):
        pass
"""


@needs_in_order
def test_a_sample_that_fails_out_of_order_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(FAILS)
    ran = whence_run(script, cwd=tmp_path)
    (finding,) = ran.loud
    assert finding["rule"] == "data/corrupt-sample"
    assert finding["origin"]["line"] == 13
    assert finding["origin"]["sample"]["dataset_index"] == 29


@pytest.mark.parametrize(
    ("given", "batched", "expected"),
    [
        (None, True, None),
        ([3, 1], True, [3, 1]),
        ((3, 1), True, [3, 1]),
        ((3, 1), False, [(3, 1)]),
        ([3, 1], False, [3, 1]),
        (7, False, [7]),
        ("a", False, ["a"]),
        (range(2), True, [0, 1]),
        ({"a": 1, "b": 2}, True, ["a", "b"]),
        (torch.tensor([2, 5]), True, [2, 5]),
        (torch.tensor(2), False, [2]),
        (np.array([2, 5]), False, [2, 5]),
        ([np.int64(4), torch.tensor(5), (1, 2)], True, [4, 5, (1, 2)]),
        (slice(0, 4), False, [slice(0, 4)]),
        (iter([1]), True, None),
        (7, True, None),
    ],
)
def test_what_samplers_give_is_read_as_indices(
    given: Any, batched: bool, expected: list[Any] | None
) -> None:
    assert listed(given, batched) == expected
