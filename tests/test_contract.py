"""Data contracts: what departs, what must not, and what the file says."""

from __future__ import annotations

import json
import pickle
import random
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from whence.data.contract import Contract
from whence.data.departure import Departure, Kind
from whence.data.result import ContractBroken, Result
from whence.data.sampling import MOST_SAMPLED, Sample
from whence.data.summary import Summary
from whence.data.terms import ContractError
from whence.data.transformer import ContractTransformer, ContractWarning
from whence.finding import Severity

Array = np.ndarray[Any, Any]
ROWS = 2000


def normal(seed: int, rows: int = ROWS, columns: int = 3) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)


def broken(result: Result) -> list[tuple[str, tuple[Any, ...]]]:
    return [
        (str(each.kind), each.columns)
        for each in result.departures
        if each.severity is not Severity.INFO
    ]


def only(result: Result) -> Departure:
    (departure,) = [each for each in result.departures if each.severity is not Severity.INFO]
    return departure


# What it says


def test_unscaled_columns_are_one_departure_in_words() -> None:
    raw = np.random.default_rng(0).uniform(0, 1, (100, 5))
    scaled = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    result = Contract.fit(scaled).check(raw)
    assert str(result) == (
        "contract broken: 1 error; 100 rows checked\n"
        "  error   columns 0 to 4 look unscaled: value = 0.29 * contract + 0.53; a "
        "StandardScaler was probably not applied"
    )
    assert only(result).columns == (0, 1, 2, 3, 4)
    assert only(result).numbers["a"] == pytest.approx(raw.std(axis=0), rel=1e-3)
    assert only(result).numbers["b"] == pytest.approx(raw.mean(axis=0), abs=1e-3)


def test_a_kept_contract_says_so_first() -> None:
    assert str(Contract.fit(normal(0)).check(normal(1))) == "contract kept: 2,000 rows checked"


def test_broken_contract_raises_an_assertion_error_that_can_be_sent_elsewhere() -> None:
    result = Contract.fit(normal(0)).check(normal(1) * 10)
    assert not result
    with pytest.raises(AssertionError, match="contract broken") as raised:
        result.raise_if_broken()
    again = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(again, ContractBroken)
    assert str(again.result) == str(result)


def test_kept_contract_does_not_raise() -> None:
    Contract.fit(normal(0)).check(normal(1)).raise_if_broken()


# Values -> departs or not. The contract is of 2000 rows of standard normal values in three columns,
# the second moved.


def changed(change: Callable[[Array], Any], rows: int = ROWS) -> Any:
    data = normal(1, rows) + np.array([0, 5, 0], dtype=np.float32)
    made = change(data)
    return data if made is None else made


def put(row: int, column: int, value: float) -> Callable[[Array], None]:
    def change(data: Array) -> None:
        data[row, column] = value

    return change


DEPARTS: dict[str, tuple[Callable[[Array], Any], int, list[tuple[str, tuple[Any, ...]]]]] = {
    "as it was": (lambda x: x, ROWS, []),
    "one row": (lambda x: x, 1, []),
    "slightly beyond": (put(5, 0, 4.2), ROWS, []),
    "far outside": (put(5, 0, 50.0), ROWS, [("range", (0,))]),
    "far outside in one row": (put(0, 0, -50.0), 1, [("range", (0,))]),
    "a sentinel": (put(5, 2, -9999.0), ROWS, [("range", (2,))]),
    "missing": (put(7, 2, np.nan), ROWS, [("missing", (2,))]),
    "missing in one row": (put(0, 2, np.nan), 1, [("missing", (2,))]),
    "infinite": (put(7, 1, np.inf), ROWS, [("infinite", (1,))]),
    "shifted": (lambda x: x + np.float32([0, 0, 1]), ROWS, [("shift", (2,))]),
    "shifted a little": (lambda x: x + np.float32(0.05), ROWS, []),
    "another unit": (lambda x: x * np.float32([1, 1000, 1]), ROWS, [("scale", (1,))]),
    "another unit in 10 rows": (lambda x: x * np.float32([1, 1000, 1]), 10, [("range", (1,))]),
    "exponential": (lambda x: np.exp(x), ROWS, [("scale", (0, 1, 2))]),
    "swapped": (lambda x: np.ascontiguousarray(x[:, [1, 0, 2]]), ROWS, [("order", ())]),
    "constant": (lambda x: x * np.float32([0, 1, 1]), ROWS, [("constant", (0,))]),
    "two equal rows": (lambda x: x * np.float32([0, 1, 1]), 2, []),
    "other shape": (lambda x: x[:, :2], ROWS, [("shape", ())]),
    "more axes": (lambda x: x[:, :, None], ROWS, [("shape", ())]),
    "double precision": (lambda x: x.astype(np.float64), ROWS, [("dtype", ())]),
    "whole numbers": (
        lambda x: np.round(x).astype(np.int64),
        ROWS,
        [("dtype", ()), ("distribution", (0, 1))],
    ),
    "a tensor": (lambda x: torch.from_numpy(x), ROWS, []),
    "Fortran's order": (lambda x: np.asfortranarray(x), ROWS, []),
    "backwards": (lambda x: x[::-1], ROWS, []),
    "read-only": (lambda x: x.setflags(write=False), ROWS, []),
    "plain lists": (lambda x: x.tolist(), ROWS, []),
}


@pytest.mark.parametrize("name", DEPARTS)
def test_values(name: str) -> None:
    change, rows, expected = DEPARTS[name]
    contract = Contract.fit(normal(0) + np.array([0, 5, 0], dtype=np.float32))
    assert broken(contract.check(changed(change, rows))) == expected


def test_the_first_row_that_offends_is_named() -> None:
    contract = Contract.fit(normal(0))
    data = normal(1)
    data[[9, 300], 1] = np.nan
    data[1234, 2] = 77.0
    assert {each.kind: each.row for each in contract.check(data).departures} == {
        Kind.MISSING: 9,
        Kind.RANGE: 1234,
    }
    in_batches = contract.check(iter(np.array_split(data, 7)))
    assert {each.kind: each.row for each in in_batches.departures} == {
        Kind.MISSING: 9,
        Kind.RANGE: 1234,
    }


CAUSES = {
    "not divided by 255": (lambda u: u, lambda u: u * 255, "probably not divided by 255"),
    "divided twice": (lambda u: u, lambda u: u / 255, "probably divided by 255 twice"),
    "to -1..1": (
        lambda u: u * 2 - 1,
        lambda u: u * 255,
        "probably not rescaled from 0..255 to -1..1",
    ),
    "min max": (
        lambda u: (u - u.min()) / (u.max() - u.min()),
        lambda u: u * 40 + 20,
        "MinMaxScaler",
    ),
    "percent": (lambda u: u * 0.4, lambda u: u * 40, "another unit, 100 times smaller"),
    "log": (
        lambda u: np.log(np.exp(5 * u)),
        lambda u: np.exp(5 * u),
        "log was probably not applied",
    ),
    "log1p": (lambda u: np.log1p(50 * u**2), lambda u: 50 * u**2, "log1p was probably not applied"),
    "logged": (lambda u: np.exp(5 * u), lambda u: 5 * u, "log was applied"),
    "standardised": (
        lambda u: u * 40 + 20,
        lambda u: (u - 0.5) / 0.289,
        "probably standardised, unlike",
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_likely_causes(name: str) -> None:
    right, wrong, said = CAUSES[name]
    rng = np.random.default_rng(0)
    contract = Contract.fit(right(rng.uniform(0, 1, 3000)))
    departure = only(contract.check(wrong(rng.uniform(0, 1, 3000))))
    assert departure.kind is Kind.SCALE
    assert departure.severity is Severity.ERROR
    assert said in departure.message


LABELS = np.arange(1000) % 10
CATEGORIES: dict[str, tuple[Any, Any, list[str]]] = {
    "the same": (LABELS, LABELS[:500], []),
    "one label": (LABELS, LABELS[:1], []),
    "shifted by one": (LABELS, LABELS + 1, ["new-category", "lost-category"]),
    "one new label in a small batch": (LABELS, np.array([3, 10, 2]), ["new-category"]),
    "one new label in a large split": (LABELS, np.append(LABELS[:400], 10), []),
    "a hundred new labels": (LABELS, np.append(LABELS, [10] * 100), ["new-category"]),
    "one class left": (LABELS, np.zeros(400, dtype=int), ["lost-category"]),
    "as floats": (LABELS, LABELS.astype(np.float64), ["dtype"]),
    "text": (["a", "b"] * 500, ["a", "c", "b"], ["new-category"]),
    "text with gaps": (["a", "b"] * 500, ["a", None, "b"], ["missing"]),
    "truth": (np.array([True, False] * 50), np.array([True] * 9), []),
    "free text": ([f"text {each}" for each in range(500)], ["anything"], []),
    "counts go on": (
        np.repeat(np.arange(9), [300, 300, 200, 100, 50, 25, 12, 8, 5]),
        np.array([2, 9]),
        [],
    ),
}


@pytest.mark.parametrize("name", CATEGORIES)
def test_categories(name: str) -> None:
    fitted, other, expected = CATEGORIES[name]
    assert [kind for kind, _ in broken(Contract.fit(fitted).check(other))] == expected


# What must not depart


def columns_of_all_kinds(rng: np.random.Generator, rows: int) -> Array:
    normal = rng.standard_normal(rows)
    kinds = [
        normal,
        rng.uniform(0, 1, rows),
        rng.exponential(1, rows),
        np.exp(2 * normal),
        rng.standard_cauchy(rows),
        rng.standard_t(3, rows),
        rng.standard_t(5, rows),
        rng.pareto(1, rows),
        -rng.weibull(0.5, rows),
        rng.gamma(0.1, 1, rows),
        rng.beta(0.2, 0.2, rows),
        np.where(rng.random(rows) < 0.97, 0, np.exp(normal)),
        np.where(rng.random(rows) < 0.997, 0, rng.standard_cauchy(rows)),
        np.where(rng.random(rows) < 1 / rows, 2.0, 1.0),
        np.where(rng.random(rows) < 0.5, -5, 5) + 0.1 * normal,
        (rng.random(rows) < 0.02).astype(float),
        rng.poisson(3, rows).astype(float),
        np.round(normal, 1),
        np.arange(rows) * 0.1 + 1.7e9,
        1e6 + 1e-3 * normal,
        1e30 * normal,
        np.ones(rows),
    ]
    return np.stack(kinds, axis=1)


def whole_numbers_of_all_kinds(rng: np.random.Generator, rows: int) -> Array:
    kinds = [
        rng.poisson(3, rows),
        rng.poisson(0.01, rows),
        rng.zipf(1.5, rows).clip(max=10**9),
        rng.permutation(rows),
        rng.integers(0, 2**62, rows),
        rng.integers(0, 10, rows),
        np.where(rng.random(rows) < 3 / rows, 7, rng.integers(0, 3, rows)),
        np.arange(rows),
        rng.geometric(0.05, rows),
    ]
    return np.stack(kinds, axis=1)


@pytest.mark.parametrize("make", [columns_of_all_kinds, whole_numbers_of_all_kinds])
def test_random_splits_never_depart(make: Callable[[np.random.Generator, int], Array]) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = int(rng.choice([120, 400, 1000, 5000]))
        data, order = make(rng, rows), rng.permutation(rows)
        first = int(rows * rng.choice([0.2, 0.5, 0.8]))
        one, other = data[np.sort(order[:first])], data[order[first:]]
        contract = Contract.fit(one)
        assert contract.check(one).ok, seed
        result = contract.check(other)
        assert result.ok, f"seed {seed}, {rows} rows: {result}"


def test_small_batches_of_the_same_data_never_depart() -> None:
    rng = np.random.default_rng(0)
    data = columns_of_all_kinds(rng, 4000)[rng.permutation(4000)]
    contract = Contract.fit(data[:2000])
    for size in (1, 2, 5, 12, 30):
        for start in range(2000, 2000 + 20 * size, size):
            result = contract.check(data[start : start + size])
            assert result.ok, str(result)


def test_random_splits_depart_by_gross_outliers_and_by_rare_categories_in_a_small_batch() -> None:
    """The two exceptions, on purpose: the one may be a sentinel, the other is what a served model
    cannot encode.
    """
    data = normal(0)
    data[7, 1] = 9999.0
    assert broken(Contract.fit(data[8:]).check(data[:8])) == [("range", (1,))]
    labels = np.append(LABELS, 99)
    assert broken(Contract.fit(labels[:-3]).check(labels[-3:])) == [("new-category", ())]


def test_ids_and_clocks_may_go_on() -> None:
    rows = np.arange(1000)
    data = np.stack(
        [rows, rows * 60 + 1.7e9, np.random.default_rng(0).standard_normal(1000)], axis=1
    )
    contract = Contract.fit(data[:700])
    assert [column.role for column in contract.terms.leaves[""].columns] == ["index", "index", None]
    assert contract.check(data[700:]).ok
    shuffled = np.random.default_rng(0).permutation(1000)
    contract = Contract.fit({"id": shuffled, "x": data[:, 2]})
    assert contract.check({"id": shuffled + 5000, "x": data[:, 2]}).ok


def test_a_sorted_feature_that_stands_alone_is_no_index() -> None:
    contract = Contract.fit(np.linspace(-1, 1, 500).reshape(-1, 1))
    assert not contract.check(np.linspace(-100, 100, 500).reshape(-1, 1))


# Structures and sources

Pair = namedtuple("Pair", "image label")


@dataclass
class Record:
    image: Any
    label: Any


IMAGES = (
    torch.rand(300, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    * torch.tensor([1, 0.7, 0.3])[:, None, None]
)
CLASSES = torch.arange(300) % 5


class Samples(Dataset[Any]):
    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, place: int) -> Any:
        random.random()
        torch.rand(1)
        np.random.rand()
        return IMAGES[place], int(CLASSES[place])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(zip(IMAGES, CLASSES.tolist(), strict=True))


def batches() -> Iterator[Any]:
    for start in range(0, 300, 64):
        yield IMAGES[start : start + 64], CLASSES[start : start + 64]


SOURCES: dict[str, Callable[[], Any]] = {
    "tuple": lambda: (IMAGES, CLASSES),
    "tensor dataset": lambda: TensorDataset(IMAGES, CLASSES),
    "dataset": Samples,
    "stream": Stream,
    "loader": lambda: DataLoader(TensorDataset(IMAGES, CLASSES), 32, shuffle=True),
    "loader of a dataset": lambda: DataLoader(Samples(), 32, shuffle=True),
    "loader of single samples": lambda: DataLoader(Samples(), batch_size=None),
    "generator": batches,
    "list of batches": lambda: list(batches()),
    "list of samples": lambda: [
        (image, int(label)) for image, label in zip(IMAGES, CLASSES, strict=True)
    ],
    "arrays": lambda: (IMAGES.numpy(), CLASSES.numpy()),
}


@pytest.mark.parametrize("one", SOURCES)
def test_every_source_gives_the_same_contract(one: str) -> None:
    terms = Contract.fit(SOURCES[one]()).terms.leaves
    plain = Contract.fit((IMAGES, CLASSES)).terms.leaves
    assert [(leaf.path, leaf.shape, leaf.dtype, leaf.rows) for leaf in terms.values()] == [
        ("[0]", ("N", 3, 8, 8), "float32", 300),
        ("[1]", ("N",), "int64", 300),
    ]
    for leaf, twin in zip(terms.values(), plain.values(), strict=True):
        for column, other in zip(leaf.columns, twin.columns, strict=True):
            assert (column.name, column.categories, column.missing) == (
                other.name,
                other.categories,
                other.missing,
            )
            assert (column.min, column.max) == pytest.approx((other.min, other.max), abs=1e-3)
    contract = Contract.fit((IMAGES, CLASSES))
    assert contract.check(SOURCES[one]()).ok
    assert contract.check((IMAGES[0], CLASSES[0])).ok
    assert contract.check((IMAGES[:1], CLASSES[:1])).ok


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        (IMAGES, [""]),
        (
            {"image": IMAGES, "meta": [CLASSES, CLASSES]},
            ["['image']", "['meta'][0]", "['meta'][1]"],
        ),
        (Pair(IMAGES, CLASSES), [".image", ".label"]),
        (Record(IMAGES, CLASSES), [".image", ".label"]),
        ([IMAGES, CLASSES], ["[0]", "[1]"]),
    ],
)
def test_paths_of_leaves(data: Any, paths: list[str]) -> None:
    contract = Contract.fit(data)
    assert list(contract.terms.leaves) == paths
    assert contract.check(data).ok


PICTURES: dict[str, tuple[Any, list[tuple[str, tuple[Any, ...]]]]] = {
    "raw pixels": ((IMAGES * 255, CLASSES), [("scale", (0, 1, 2))]),
    "one raw picture": ((IMAGES[:1] * 255, CLASSES[:1]), [("range", (0, 1)), ("range", (2,))]),
    "BGR": ((IMAGES.flip(1), CLASSES), [("order", ())]),
    "channels last": ((IMAGES.permute(0, 2, 3, 1), CLASSES), [("shape", ())]),
    "double": ((IMAGES.double(), CLASSES), [("dtype", ())]),
    "labels as floats": ((IMAGES, CLASSES.float()), [("dtype", ())]),
    "a leaf too few": ((IMAGES,), [("missing-leaf", ())]),
    "a leaf too many": ((IMAGES, CLASSES, CLASSES), [("unexpected-leaf", ())]),
    "uneven": ((IMAGES[:64], CLASSES[:63]), [("shape", ())]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name: str) -> None:
    data, expected = PICTURES[name]
    contract = Contract.fit((IMAGES, CLASSES))
    assert broken(contract.check(data)) == expected


def test_axes_that_vary_have_names_and_may_go_on_varying() -> None:
    texts = [torch.randint(0, 1000, (8, length)) for length in (5, 9, 7)]
    contract = Contract.fit(iter([{"ids": each} for each in texts]))
    assert contract.terms.leaves["['ids']"].shape == ("N", "A1")
    assert contract.check({"ids": torch.randint(0, 1000, (8, 31))}).ok
    assert broken(contract.check({"ids": torch.randint(0, 1000, (8, 3, 3))})) == [("shape", ())]


def test_leaves_that_come_and_go_are_optional() -> None:
    contract = Contract.fit(iter([{"x": normal(0), "hint": normal(1)}, {"x": normal(2)}]))
    assert contract.check({"x": normal(3)}).ok


def test_summaries_merge_as_if_it_were_one() -> None:
    data = normal(0, 5000) * 3 + 100
    data[17, 1], data[4000, 2] = np.nan, np.inf
    whole, parts = Summary(), Summary()
    whole.add(data)
    for part in np.array_split(data, 3):
        more = Summary()
        more.add(part)
        parts.merge(more)
    one, other = (each.leaves[""].array for each in (whole, parts))
    assert one is not None
    assert other is not None
    for left, right in zip(one.facts(), other.facts(), strict=True):
        assert (left.low, left.high, left.missing, left.infinite) == (
            right.low,
            right.high,
            right.missing,
            right.infinite,
        )
        assert (left.first_missing, left.first_infinite) == (
            right.first_missing,
            right.first_infinite,
        )
        assert (left.mean, left.std) == pytest.approx((right.mean, right.std), rel=1e-6)
    assert one.facts()[0].mean == pytest.approx(float(data[:, 0].astype(float).mean()), rel=1e-7)
    assert one.facts()[0].std == pytest.approx(float(data[:, 0].astype(float).std()), rel=1e-5)


def test_a_summary_can_be_judged_while_training() -> None:
    contract = Contract.fit((IMAGES, CLASSES))
    seen = contract.summary()
    for image, label in batches():
        seen.add((image * 255, label))
    assert broken(contract.judge(seen)) == [("scale", (0, 1, 2))]


@pytest.mark.parametrize("length", [1, 100, MOST_SAMPLED, MOST_SAMPLED + 1, 200_000])
@pytest.mark.parametrize("step", [7000, 1_000_000])
def test_the_sample_is_bounded_even_and_always_the_same(length: int, step: int) -> None:
    def taken() -> torch.Tensor:
        sample, stream = Sample(1), torch.arange(length, dtype=torch.float64).reshape(-1, 1)
        for block in stream.split(step):
            picks = sample.picks(len(block))
            sample.add(block if picks is None else block[picks], picks, len(block))
        return sample.values().reshape(-1)

    values = taken()
    assert torch.equal(values, taken())
    assert len(values) <= MOST_SAMPLED
    assert len(values) == length if length <= MOST_SAMPLED else len(values) > MOST_SAMPLED // 3
    assert bool((values.diff() > 0).all())
    assert float(values.mean()) == pytest.approx((length - 1) / 2, rel=0.02, abs=0.5)


# The file


def test_round_trip(tmp_path: Path) -> None:
    data = {
        "x": normal(0),
        "y": LABELS,
        "words": ["ä", "b"] * 500,
        "time": np.arange(1000).astype("datetime64[s]"),
    }
    contract = Contract.fit(data)
    contract.save(tmp_path / "contract.json")
    text = (tmp_path / "contract.json").read_text(encoding="utf-8")
    again = Contract.load(tmp_path / "contract.json")
    assert again == contract
    assert str(again) == text
    assert again.check(data).ok
    assert all(len(line) < 250 for line in text.splitlines())
    assert sum('"column": ' in line for line in text.splitlines()) == 3


def edit(tmp_path: Path, change: Callable[[dict[str, Any]], object], data: Any = None) -> Contract:
    path = tmp_path / "contract.json"
    Contract.fit(normal(0) if data is None else data).save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return Contract.load(path)


def column(document: dict[str, Any], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["leaves"][""]["columns"][place]
    return found


def with_value(value: float) -> Array:
    data = normal(1)
    data[3, 0] = value
    return data


def remove(*keys: str) -> Callable[[dict[str, Any]], object]:
    """Delete keys of every column."""

    def change(document: dict[str, Any]) -> None:
        for each in document["leaves"][""]["columns"]:
            for key in keys:
                del each[key]

    return change


EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], Array, list[str]]] = {
    "nothing": (lambda d: None, with_value(500.0), ["range"]),
    "wider range": (lambda d: column(d).update(max=1000), with_value(500.0), []),
    "no max": (lambda d: column(d).pop("max"), with_value(500.0), []),
    "strict range": (lambda d: column(d).update(max=3.5, tolerance=0), with_value(3.6), ["range"]),
    "loose by hand": (lambda d: column(d).update(tolerance=1000), with_value(500.0), []),
    "missing": (lambda d: None, with_value(np.nan), ["missing"]),
    "no missing": (remove("missing"), with_value(np.nan), []),
    "some missing": (lambda d: column(d).update(missing=0.1), with_value(np.nan), []),
    "no dtype": (lambda d: d["leaves"][""].pop("dtype"), normal(1).astype(np.float64), []),
    "no shape": (lambda d: d["leaves"][""].pop("shape"), normal(1), []),
    "no columns": (lambda d: d["leaves"][""].pop("columns"), normal(1) * 1000, []),
    "no rows": (lambda d: d["leaves"][""].pop("rows"), normal(1) * 1000, []),
    "mean": (lambda d: None, normal(1) + np.float32(1), ["shift"]),
    "no mean": (remove("mean"), normal(1) + np.float32(1), []),
    "no std": (remove("std", "min", "max"), normal(1) * 30, []),
    "no quantiles, a scale": (remove("quantiles"), normal(1) * 30, ["scale"]),
    "no quantiles, a shift": (remove("quantiles"), normal(1) + np.float32(2), ["shift"]),
    "no quantiles, the same": (remove("quantiles"), normal(1), []),
    "an index": (
        lambda d: [each.update(role="index") for each in d["leaves"][""]["columns"]],
        normal(1) * 1000,
        [],
    ),
    "an axis that varies": (
        lambda d: d["leaves"][""].update(shape=["N", "K"], columns=[]),
        normal(1, columns=9),
        [],
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_edits_by_hand(name: str, tmp_path: Path) -> None:
    change, data, expected = EDITS[name]
    assert [kind for kind, _ in broken(edit(tmp_path, change).check(data))] == expected


def test_categories_added_by_hand(tmp_path: Path) -> None:
    other = np.append(LABELS, [10] * 100)
    assert not edit(tmp_path, lambda d: None, LABELS).check(other)
    assert (
        edit(tmp_path, lambda d: column(d)["categories"].update({"10": 0.1}), LABELS)
        .check(other)
        .ok
    )
    assert (
        edit(tmp_path, lambda d: column(d).update(categories=[*range(11)]), LABELS).check(other).ok
    )


BAD_FILES = {
    "": "line 1, column 1: not JSON",
    "{": "line 1, column 2: not JSON",
    "[]": "expected an object in braces, got []",
    "{}": "schema: expected 1, got nothing",
    '{"schema": 2}': "schema: expected 1, got 2",
    '{"schema": 1, "leafs": {}}': 'unknown key "leafs"; valid keys are schema, levels, leaves',
    '{"schema": 1, "schema": 1}': 'duplicate key "schema"',
    '{"schema": 1, "levels": [0.5]}': "levels: expected [0.01, 0.05",
    '{"schema": 1, "leaves": 3}': "leaves: expected an object in braces, got 3",
    '{"schema": 1, "leaves": {"": []}}': 'leaves[""]: expected an object in braces, got []',
    '{"schema": 1, "leaves": {"": '
    '{"shape": 3}}}': 'leaves[""].shape: expected a list of sizes and names',
    '{"schema": 1, "leaves": {"": '
    '{"shape": [-1]}}}': 'leaves[""].shape[0]: expected a size or a name, got -1',
    '{"schema": 1, "leaves": {"": {"rows": "many"}}}': 'leaves[""].rows: expected an integer',
    '{"schema": 1, "leaves": {"": {"columns": {}}}}': 'leaves[""].columns: expected a list, got {}',
    '{"schema": 1, "leaves": {"": {"columns": [{"minimum": 0}]}}}': (
        'columns[0]: unknown key "minimum"; valid keys are column, dtype, role, min'
    ),
    '{"schema": 1, "leaves": {"": {"columns": [{"column": "age", "min": "0"}]}}}': (
        'columns[0] ("age").min: expected a number, got "0"'
    ),
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"min": true}]}}}': "min: expected a number, got true",
    '{"schema": 1, "leaves": {"": {"columns": [{"min": NaN}]}}}': "NaN is not a JSON number",
    '{"schema": 1, "leaves": {"": {"columns": [{"min": 1e999}]}}}': "min: expected a number",
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"min": 3, "max": 2}]}}}': "min: expected at most max (2), got 3",
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"std": -1}]}}}': "std: expected a number, 0 or more, got -1",
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"missing": 2}]}}}': "missing: expected a share from 0 to 1, got 2",
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"quantiles": [1, 2]}]}}}': "quantiles: expected 7 ascending numbers",
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"categories": {"a": "b"}}]}}}': 'categories["a"]: expected a share',
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"role": "id"}]}}}': 'role: expected "index" or "time", got "id"',
    '{"schema": 1, "leaves": {"": '
    '{"columns": [{"column": 1}, {"column": 1}]}}}': "duplicate column 1",
    "[" * 100_000: "cannot read the JSON",
}


@pytest.mark.parametrize("text", BAD_FILES, ids=lambda text: text[:60])
def test_bad_files_say_which_key_and_what_was_expected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "contract.json"
    path.write_text(text)
    with pytest.raises(ContractError) as raised:
        Contract.load(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert BAD_FILES[text] in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "contract.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ContractError, match="not UTF-8 text"):
        Contract.load(tmp_path / "contract.json")


# Data that are hardly data


class Silly:
    shape = property(lambda self: 1 / 0)


DEGENERATE: dict[str, Callable[[], Any]] = {
    "empty": lambda: np.empty((0, 3)),
    "no columns": lambda: np.empty((3, 0)),
    "no batches": lambda: iter([]),
    "empty dict": dict,
    "empty list": list,
    "0-d": lambda: torch.tensor(3.0),
    "a number": lambda: 3,
    "None": lambda: None,
    "text": lambda: "text",
    "all NaN": lambda: np.full((5, 2), np.nan),
    "all infinite": lambda: np.full((5, 2), -np.inf),
    "complex": lambda: torch.zeros(5, 2, dtype=torch.complex64),
    "complex array": lambda: np.zeros((5, 2), dtype=complex),
    "bool": lambda: torch.tensor([True, False]),
    "objects": lambda: np.array([1, "a", None, {}], dtype=object),
    "objects in a table": lambda: np.array([[1, "a"], [None, {}]], dtype=object),
    "numbers as objects": lambda: np.array([1, 2.5, None], dtype=object),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "meta": lambda: torch.empty(5, 2, device="meta"),
    "half": lambda: torch.ones(5, 2, dtype=torch.float16),
    "bfloat16": lambda: torch.ones(5, 2, dtype=torch.bfloat16),
    "float8": lambda: torch.ones(5, 2).to(torch.float8_e4m3fn),
    "unsigned": lambda: np.arange(5, dtype=np.uint64),
    "long double": lambda: np.ones((5, 2), dtype=np.longdouble),
    "big endian": lambda: np.ones((5, 2), dtype=">f4"),
    "bytes": lambda: np.array([b"a", b"b"]),
    "dates": lambda: np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    "records": lambda: np.zeros(5, dtype=[("a", "f4"), ("b", "i8")]),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    "huge": lambda: np.array([1e308, -1e308, 1e308]),
    "huge single": lambda: np.array([3e38, -3e38], dtype=np.float32),
    "with a gradient": lambda: torch.ones(3, 2, requires_grad=True),
    "ragged lists": lambda: [[1, 2], [3]],
    "ragged batches": lambda: iter([torch.ones(2, 3), torch.ones(2, 4, 5), torch.ones(1)]),
    "changing types": lambda: iter(
        [torch.ones(2, 3), torch.ones(2, 3).long(), np.array(["a", "b"])]
    ),
    "an object": object,
    "an object that raises": Silly,
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_neither_crash_nor_break_their_own_contract(
    name: str, tmp_path: Path
) -> None:
    contract = Contract.fit(DEGENERATE[name]())
    contract.save(tmp_path / "contract.json")
    contract = Contract.load(tmp_path / "contract.json")
    result = contract.check(DEGENERATE[name]())
    assert result.ok, str(result)
    assert str(result)
    Contract.fit(normal(0)).check(DEGENERATE[name]())
    contract.check(normal(0))


@pytest.mark.parametrize(
    "name", ["complex", "sparse", "meta", "objects", "no batches", "an object"]
)
def test_what_could_not_be_checked_is_said(name: str) -> None:
    result = Contract.fit(DEGENERATE[name]()).check(DEGENERATE[name]())
    assert any(
        each.kind is Kind.UNCHECKED and "could not check" in each.message
        for each in result.departures
    )


def test_gaps_are_not_counted_among_values_out_of_range() -> None:
    ages = np.random.default_rng(0).integers(18, 90, 4000).astype(float)
    contract = Contract.fit({"age": ages})
    ages[3], ages[7], ages[9] = 9999, np.nan, np.inf
    found = next(
        each for each in contract.check({"age": ages}).departures if each.kind is Kind.RANGE
    )
    assert found.numbers["rows"] == 1
    assert found.row == 3


def test_the_name_of_a_file_is_no_data(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("a,b\n1,2\n")
    for given in (path, str(path)):
        with pytest.raises(ContractError, match="is a file name"):
            Contract.fit(given)


# The program is left alone


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_is_changed(name: str) -> None:
    images, classes = IMAGES.clone(), CLASSES.clone()
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    before = (
        torch.get_rng_state(),
        random.getstate(),
        str(np.random.get_state()),
        list(warnings.filters),
    )
    default = torch.get_default_dtype()
    source = SOURCES[name]()
    Contract.fit(source)
    Contract.fit((IMAGES, CLASSES)).check(SOURCES[name]())
    after = (
        torch.get_rng_state(),
        random.getstate(),
        str(np.random.get_state()),
        list(warnings.filters),
    )
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert torch.get_default_dtype() is default
    assert torch.equal(images, IMAGES)
    assert torch.equal(classes, CLASSES)


def test_a_loader_keeps_its_own_generator() -> None:
    loader = DataLoader(
        TensorDataset(IMAGES), 32, shuffle=True, generator=torch.Generator().manual_seed(3)
    )
    expected = [batch[0].sum() for batch in loader]
    loader.generator.manual_seed(3)
    Contract.fit(loader)
    assert [batch[0].sum() for batch in loader] == expected


def test_a_global_default_dtype_changes_nothing() -> None:
    expected = str(Contract.fit(normal(0)))
    torch.set_default_dtype(torch.float64)
    try:
        assert str(Contract.fit(normal(0))) == expected
    finally:
        torch.set_default_dtype(torch.float32)


# Pipelines


def test_transformer_passes_data_through_and_checks_them() -> None:
    transformer = Contract.fit(normal(0)).transformer()
    data = normal(1)
    assert transformer.fit(data).transform(data) is data
    assert list(transformer.get_feature_names_out()) == ["x0", "x1", "x2"]
    with pytest.raises(ContractBroken):
        transformer.transform(data * 100)


def test_transformer_can_warn_or_learn() -> None:
    transformer = ContractTransformer(on_departure="warn").fit(normal(0))
    with pytest.warns(ContractWarning, match="contract broken"):
        transformer.transform(normal(1) * 100)
    with pytest.raises(ValueError, match="call fit"):
        ContractTransformer().transform(normal(0))
    with pytest.raises(ValueError, match='must be "raise" or "warn"'):
        ContractTransformer(on_departure="sing").fit(normal(0))
    with pytest.raises(ValueError, match="unknown parameter 'what'"):
        transformer.set_params(what=1)


def test_transformer_in_a_pipeline() -> None:
    base = pytest.importorskip("sklearn.base")
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    data = normal(0) * 3 + 5
    steps = pipeline.make_pipeline(Contract.fit(data).transformer(), preprocessing.StandardScaler())
    copy = base.clone(steps).fit(data)
    assert list(copy.get_feature_names_out()) == ["x0", "x1", "x2"]
    assert copy.transform(data).shape == data.shape
    with pytest.raises(ContractBroken, match="another unit"):
        copy.transform(data * 1000)


# Frames


def people(seed: int, rows: int = 1000) -> Any:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "id": np.arange(rows) + 1000 * seed,
            "age": rng.integers(18, 90, rows),
            "income": np.exp(rng.normal(10, 1, rows)),
            "city": rng.choice(["Bonn", "Kiel", "Ulm"], rows),
            "size": pandas.Categorical(rng.choice(["s", "m"], rows), categories=["s", "m", "l"]),
            "since": pandas.date_range(f"{2020 + seed}-01-01", periods=rows, freq="h"),
            "score": pandas.array(
                [None if each % 10 == 0 else each % 7 for each in range(rows)], dtype="Int64"
            ),
        }
    )


FRAMES: dict[str, tuple[Callable[[Any], Any], list[tuple[str, tuple[Any, ...]]]]] = {
    "later people": (lambda f: f, []),
    "one row": (lambda f: f.iloc[:1], []),
    "one row as a series": (lambda f: f.iloc[3], []),
    "one row as a dict": (lambda f: f.iloc[3].to_dict(), []),
    "a declared category": (lambda f: f.assign(size=f["size"].where(f.index > 0, "l")), []),
    "columns backwards": (lambda f: f[f.columns[::-1]], [("order", ())]),
    "a column too few": (lambda f: f.drop(columns="city"), [("missing-column", ("city",))]),
    "a column too many": (lambda f: f.assign(new=1), [("unexpected-column", ("new",))]),
    "another city": (
        lambda f: f.replace({"city": {"Ulm": "Hof"}}),
        [("new-category", ("city",)), ("lost-category", ("city",))],
    ),
    "a sentinel": (
        lambda f: f.assign(age=f["age"].where(f.index != 7, -999)),
        [("range", ("age",))],
    ),
    "logged": (lambda f: f.assign(income=np.log(f["income"])), [("scale", ("income",))]),
    "no date": (lambda f: f.assign(since=f["since"].where(f.index > 0)), [("missing", ("since",))]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str) -> None:
    change, expected = FRAMES[name]
    contract = Contract.fit(people(0))
    assert broken(contract.check(change(people(1)))) == expected


def test_frames_and_arrays_of_the_same_columns_are_compared_in_their_order() -> None:
    frame = people(0)[["age", "income"]]
    array = frame.to_numpy()
    assert Contract.fit(frame).check(array).ok
    assert Contract.fit(array).check(frame).ok
    assert broken(Contract.fit(frame).check(array[:, ::-1])) != []
    assert broken(Contract.fit(frame).check(array[:, :1])) == [("shape", ())]
