"""A look through data without training: what is said of loaders, datasets and arrays,
and what stays as it was.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import whence
from whence.cli.data import main
from whence.config import UsageError

PROGRAM = """
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset

class Readings(Dataset):
    def __init__(self):
        self.x = np.random.default_rng(0).uniform(0, 4, (96, 3)).astype(np.float32)
        self.x[37, 1] = -1
    def __len__(self):
        return 96
    def __getitem__(self, i):
        with np.errstate(invalid="ignore"):
            values = np.log(self.x[i] + 0.5)
        return torch.from_numpy(values), i * 7 % 4

loader = DataLoader(Readings(), batch_size=16)
table = np.ones((20, 2))
class Ragged(Readings):
    def __getitem__(self, i):
        return torch.zeros(4 if i == 21 else 3)
ragged = DataLoader(Ragged(), batch_size=16)
def fails():
    raise ValueError("mine")
"""


class Sorted(Dataset[tuple[torch.Tensor, int]]):
    def __len__(self) -> int:
        return 128

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), index / 128), index // 32


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    name = f"survey_{request.node.name.split('[')[0]}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_right_data_hear_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.randn(200, 4, generator=generator), torch.randint(0, 3, (200,), generator=generator)
    )
    report = whence.check_data(DataLoader(data, batch_size=20, shuffle=True))
    assert report.ok
    assert report.findings == ()
    assert (report.samples, report.batches) == (200, 10)
    assert [(row.leaf, row.column) for row in report.rows] == [
        ("[0]", "0"),
        ("[0]", "1"),
        ("[0]", "2"),
        ("[0]", "3"),
        ("[1]", ""),
    ]


def test_sorted_loader_is_named_and_a_bare_dataset_is_not() -> None:
    report = whence.check_data(DataLoader(Sorted(), batch_size=8))
    assert [each.rule for each in report.findings] == ["data/sorted"]
    assert whence.check_data(Sorted()).ok


def test_sample_and_line_of_a_nan(program: str, tmp_path: Path) -> None:
    assert main([f"{program}:loader", "--json", "found.json", "--quiet"]) == 1
    (found,) = json.loads((tmp_path / "found.json").read_text())["findings"]
    assert found["rule"] == "data/nonfinite"
    assert found["origin"]["sample"]["dataset_index"] == 37
    assert "np.log" in found["origin"]["code"]


def test_array_with_gaps() -> None:
    table = np.arange(40.0).reshape(20, 2)
    table[3, 1] = np.nan
    report = whence.check_data(table)
    assert [(each.rule, "row 3" in each.verdict) for each in report.findings] == [
        ("data/nonfinite", True)
    ]
    assert np.isnan(table).sum() == 1


def test_random_streams_are_as_before() -> None:
    torch.manual_seed(3)
    loader = DataLoader(TensorDataset(torch.randn(64, 2)), batch_size=8, shuffle=True)
    before = torch.get_rng_state()
    whence.check_data(loader)
    assert torch.equal(torch.get_rng_state(), before)


def test_data_that_raise_end_the_look_and_are_explained() -> None:
    class Broken(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.zeros(3 if index != 21 else 4)

    report = whence.check_data(Broken())
    assert not report.ok
    assert report.stopped_by is not None
    assert [each.rule for each in report.findings] == ["data/ragged-samples"]


def test_data_that_raise_are_explained_where_nothing_of_the_program_runs(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"{program}:ragged"]) == 1
    assert "sample 21 is (4,), the others are (3,)" in capsys.readouterr().err


def test_columns_of_words_are_in_the_table() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "colour": ["red", None]})
    row = whence.check_data(frame).rows[-1]
    assert (row.column, row.kinds, row.missing) == ("colour", 1, 0.5)


def test_first_batches_only(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{program}:loader", "--batches", "1"]) == 0
    assert "16 samples in 1 batch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("nowhere", "expected module:name"),
        ("no_such_module:x", "no module named"),
        ("{}:loder", "does not define 'loder'; it defines loader, "),
    ],
)
def test_wrong_usage_says_what_was_expected(program: str, target: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        main([target.format(program)])


def test_the_users_own_exception_is_shown(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{program}:fails"]) == 2
    said = capsys.readouterr().err
    assert "ValueError: mine" in said
    assert "whence/cli" not in said


class Pictures(Dataset[dict[str, object]]):
    """As PIL gives them; one has no colours."""

    def __init__(self, in_colour: bool = False) -> None:
        images = pytest.importorskip("PIL.Image")
        colours = np.random.default_rng(0).integers(0, 255, (20, 8, 6, 3), dtype=np.uint8)
        self.pictures = [images.fromarray(each) for each in colours]
        if not in_colour:
            self.pictures[13] = self.pictures[13].convert("L")

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"image": self.pictures[index], "label": index % 3}


def as_tensors(samples: list[dict[str, object]]) -> torch.Tensor:
    return torch.stack(
        [torch.tensor(np.asarray(each["image"])).permute(2, 0, 1) for each in samples]
    )


class Tensors(Pictures):
    def __getitem__(self, index: int) -> dict[str, object]:
        array = np.asarray(self.pictures[index])
        return {"image": torch.tensor(array).permute(2, 0, 1), "label": index % 3}


def test_a_picture_of_another_mode_is_named_where_samples_are_put_together() -> None:
    report = whence.check_data(DataLoader(Pictures(), 8, collate_fn=as_tensors))
    (found,) = report.findings
    assert (found.rule, found.verdict) == (
        "data/ragged-samples",
        "sample 13 is (8, 6), the others are (8, 6, 3)",
    )
    assert found.operands[0].description == "PIL image (8, 6), mode L"
    assert whence.check_data(DataLoader(Pictures(in_colour=True), 8, collate_fn=as_tensors)).ok


def test_a_sample_that_raises_is_compared_with_the_others() -> None:
    report = whence.check_data(DataLoader(Tensors(), 8))
    (found,) = report.findings
    assert found.rule == "data/corrupt-sample"
    assert (
        found.verdict
        == "sample 13 raised RuntimeError: array is (8, 6), in other samples (8, 6, 3)"
    )


def sorted_parts(samples: list[tuple[object, ...]]) -> tuple[tuple[object, ...], ...]:
    return tuple(zip(*samples, strict=True))


def test_batches_that_are_lists_are_read_sample_by_sample() -> None:
    listed = whence.check_data(DataLoader(Pictures(), 6, collate_fn=list))
    assert [(each.leaf, each.shape) for each in listed.rows] == [
        ("[i]['image']", "(N, 8, 6, 3) or (N, 8, 6)"),
        ("[i]['label']", "(N,)"),
    ]
    assert (listed.samples, listed.batches) == (20, 4)
    boxes = [
        (torch.rand(3, 8 + number % 3), {"boxes": torch.rand(1 + number % 2, 4)})
        for number in range(8)
    ]
    # The last batch is of two samples, and a sample has two parts.
    parted = whence.check_data(DataLoader(boxes, 3, collate_fn=sorted_parts))
    assert {each.leaf: each.shape for each in parted.rows} == {
        "[0][i]": "(N, 3, *)",
        "[1][i]['boxes']": "(N, *, 4)",
    }
    assert parted.samples == 8
    contract = whence.Contract.fit(DataLoader(boxes, 3, collate_fn=sorted_parts))
    assert contract.check(DataLoader(boxes, 3, collate_fn=sorted_parts)).ok


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(TypeError, match=r"got Linear, DataLoader"):
        whence.check_data((torch.nn.Linear(2, 2), DataLoader(Sorted(), batch_size=8)))
