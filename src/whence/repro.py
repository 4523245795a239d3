"""A failing step as a short script: the calls up to the origin, and their input tensors.

The script needs only torch. The tensors are in a safetensors file, a JSON header and raw bytes,
which cannot execute code.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import math
import struct
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.overrides import resolve_name

from whence.finding import Finding
from whence.lineage.births import UNINITIALISED, Contents, attempt, contents_before
from whence.source.spots import Spot
from whence.tape.replay import Run, Unreplayable, leaving_no_trace, trouble_in
from whence.tape.slices import BACKWARDS, is_random
from whence.tape.tape import Call, CustomFunction, Foreign, Value
from whence.tape.trip import BadUpdate, Trip

MOST_CALLS = 6
LARGEST = 64 * 2**20
NAMES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip

LOADER = '''
def load(path):
    """Read a safetensors file: eight bytes of length, a JSON header, then the tensors' bytes."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    types = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16,
             "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32, "I16": torch.int16,
             "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
    tensors = {}
    for name, info in json.loads(data[8 : 8 + length]).items():
        first, last = info["data_offsets"]
        raw = bytearray(data[8 + length + first : 8 + length + last])
        tensor = torch.empty(info["shape"], dtype=types[info["dtype"]])
        if raw:
            tensor = torch.frombuffer(raw, dtype=tensor.dtype).reshape(info["shape"])
        tensors[name] = tensor
    return tensors
'''


class CannotWrite(Exception):
    """A call that cannot be written as source."""


@dataclass(slots=True)
class Repro:
    script: str
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)

    def fails(self) -> bool:
        """Whether the script reproduces the failure.

        It runs the program's custom Functions, if any.
        """
        body = self.script.partition("tensors = load(")[2].partition("\n")[2]
        head = self.script.partition(LOADER)[2].partition("\ntensors = load(")[0]
        names: dict[str, Any] = {
            "torch": torch,
            "tensors": {name: each.clone() for name, each in self.tensors.items()},
        }
        with leaving_no_trace():
            try:
                exec(compile(head + "\n" + body, "<repro>", "exec"), names)
            except AssertionError:
                return True
            except Exception:
                return False
        return False

    def write(self, folder: Path, number: int) -> str:
        """Write both files and return the script's name."""
        name = "repro" if number == 1 else f"repro-{number}"
        (folder / f"{name}.safetensors").write_bytes(safetensors(self.tensors))
        (folder / f"{name}.py").write_text(
            self.script.replace("FILE", f"{name}.safetensors"), encoding="utf-8"
        )
        return f"{name}.py"


def safetensors(tensors: dict[str, torch.Tensor]) -> bytes:
    header: dict[str, Any] = {}
    body = b""
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        raw = (
            ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())
            if plain.numel()
            else b""
        )
        header[name] = {
            "dtype": NAMES[plain.dtype],
            "shape": list(plain.shape),
            "data_offsets": [len(body), len(body) + len(raw)],
        }
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def repro_of(trip: Trip, finding: Finding) -> Repro | None:
    """Return the first script that can be written and fails on its own."""
    for write in _ways(trip, finding):
        try:
            found = write()
        except (CannotWrite, Unreplayable, KeyError, RuntimeError, OSError, TypeError):
            continue
        if found.fails():
            return found
    return None


def _ways(trip: Trip, finding: Finding) -> Iterator[Callable[[], Repro]]:
    born, gradient = trip.born, trip.gradient
    if gradient is not None and gradient.call is not None:
        yield partial(_Writer(trip, finding).backward, gradient.call)
    if born is not None and born.call is not None and born.call.name in UNINITIALISED:
        # The contents of uninitialised memory cannot be reproduced.
        return
    if born is not None and born.call is not None and born.output is not None:
        yield partial(_Writer(trip, finding).forward, born.call, born.output)
    if born is not None and born.leaf is not None:
        yield partial(_Writer(trip, finding).leaf, born.leaf)
    if isinstance(trip.evidence, BadUpdate) and not trip.evidence.optimizer:
        # The optimizer did not cause it.
        return
    if trip.optimizer is not None and (born is None or born.call is None):
        yield _Writer(trip, finding).update


class _Writer:
    def __init__(self, trip: Trip, finding: Finding) -> None:
        self.trip = trip
        self.finding = finding
        self.contents = Contents(trip.tape, trip.run)
        self.tensors: dict[str, torch.Tensor] = {}
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.sources: list[str] = []

    def forward(self, call: Call, output: Value) -> Repro:
        if call.name in BACKWARDS:
            raise CannotWrite
        before = contents_before(self.trip, call).of
        for each in self._slice(call):
            self._call(each, before)
        name = self.names[output]
        self.lines += [f"assert torch.isfinite({name}).all(), {f'{call.name} gave NaN or Inf'!r}"]
        return self._done()

    def backward(self, call: Call) -> Repro:
        gradients: dict[Value, torch.Tensor] = {}

        def catch(each: Call, run: Run) -> None:
            for value in call.outputs:
                tensor = run.contents.get(value)
                if tensor is not None and tensor.requires_grad and each.number > call.number:
                    tensor.register_hook(
                        lambda gradient, value=value: gradients.__setitem__(
                            value, gradient.detach()
                        )
                    )  # type: ignore[no-untyped-call]

        self.trip.again(at_backward=catch)
        before = contents_before(self.trip, call).of
        differentiable = [each for each in dict.fromkeys(call.operands) if each.requires_grad]
        for value in differentiable:
            self._leaf(value, before, ".requires_grad_()")
        self._call(call, before)
        for value, gradient in gradients.items():
            incoming = f"gradient_{self.names[value]}"
            self._keep(incoming, gradient)
            self.lines.append(f"{self.names[value]}.backward({incoming}, retain_graph=True)")
        for value in differentiable:
            name = self.names[value]
            self.lines.append(
                f"assert {name}.grad is None or torch.isfinite({name}.grad).all(), "
                f"{f'the derivative of {call.name} is NaN or Inf'!r}"
            )
        if not gradients:
            raise CannotWrite
        return self._done()

    def leaf(self, value: Value) -> Repro:
        tensor = self.contents.of(value)
        if tensor is None:
            raise CannotWrite
        self._keep("data", tensor)
        self.lines.append('assert torch.isfinite(data).all(), "the data have NaN or Inf"')
        return self._done()

    def update(self) -> Repro:
        optimizer = self.trip.optimizer
        if not type(optimizer).__module__.startswith("torch.optim"):
            raise CannotWrite
        weights = [
            each
            for group in optimizer.param_groups
            for each in group["params"]
            if each.grad is not None
        ]
        if not weights:
            raise CannotWrite
        weight = next((each for each in weights if trouble_in(each.grad)), weights[0])
        self._keep("weight", weight)
        self._keep("gradient", weight.grad)
        group = next(
            each for each in optimizer.param_groups if any(one is weight for one in each["params"])
        )
        known = inspect.signature(type(optimizer).__init__).parameters
        settings = ", ".join(
            f"{key}={_constant(each)}"
            for key, each in group.items()
            if key in known
            and key != "params"
            and isinstance(each, int | float | bool | tuple | str | None)
        )
        self.lines += [
            "weight = torch.nn.Parameter(weight)",
            "weight.grad = gradient",
            f"optimizer = torch.optim.{type(optimizer).__name__}([weight], {settings})",
            "optimizer.step()",
            'assert torch.isfinite(weight).all(), "the weight is not finite after the step"',
            "for state in optimizer.state[weight].values():",
            "    assert not torch.is_tensor(state) or torch.isfinite(state).all(), "
            '"the optimizer state is not finite"',
        ]
        return self._done()

    def _slice(self, call: Call) -> list[Call]:
        """Collect the call and the calls that made its operands, as far as they are plain."""
        found = [call]
        for each in found:
            for value in each.operands:
                made = value.call
                if (
                    made is not None
                    and made not in found
                    and len(found) < MOST_CALLS
                    and not made.changed
                    and not made.has_foreign
                    and not made.inner
                    and not is_random(made)
                    and made.phase not in ("data", "optimizer", "backward")
                    and made.operands
                    and not any(one.changed for one in found)
                    and _matches(made, value, self.contents)
                ):
                    found.append(made)
        return sorted(found, key=lambda each: each.number)

    def _call(self, call: Call, before: Callable[[Value], torch.Tensor | None]) -> None:
        for value in call.operands:
            if value not in self.names:
                self._leaf(value, before)
        args = [self._say(each) for each in call.args] + [
            f"{key}={self._say(each)}" for key, each in call.kwargs.items()
        ]
        function = self._function(call)
        where = Spot.of_site(call.site) if call.site is not None else None
        comment = (
            f"  # {where.file}:{where.line}  {where.code}"
            if where is not None and "\n" not in where.code
            else ""
        )
        result = f"v{len(self.lines)}"
        self.lines.append(f"{result} = {function}({', '.join(args)}){comment}")
        for before_value, after in zip(call.changed, call.outputs, strict=False):
            self.names[after] = self.names[before_value]
        made = call.outputs[len(call.changed) :]
        for number, value in enumerate(made):
            self.names[value] = (
                result if len(made) == 1 and not call.changed else f"{result}[{number}]"
            )

    def _function(self, call: Call) -> str:
        if isinstance(call.func, CustomFunction):
            self.sources.append(textwrap.dedent(inspect.getsource(call.func.kind)))
            return f"{call.func.kind.__name__}.apply"
        name = resolve_name(call.func)
        if not name or "<" in name:
            raise CannotWrite
        return str(name)

    def _leaf(
        self, value: Value, before: Callable[[Value], torch.Tensor | None], suffix: str = ""
    ) -> None:
        tensor = before(value)
        if tensor is None:
            raise CannotWrite
        name = f"x{len(self.names)}"
        self.names[value] = name
        self._keep(name, tensor, suffix)

    def _keep(self, name: str, tensor: torch.Tensor | None, suffix: str = "") -> None:
        if (
            tensor is None
            or tensor.dtype not in NAMES
            or tensor.numel() * tensor.element_size() > LARGEST
        ):
            raise CannotWrite
        self.tensors[name] = tensor.detach().contiguous().clone()
        self.lines.append(f'{name} = tensors["{name}"]{suffix}')

    def _say(self, thing: Any) -> str:
        if isinstance(thing, Value):
            return self.names[thing]
        if isinstance(thing, Foreign):
            raise CannotWrite
        if isinstance(thing, list):
            return f"[{', '.join(map(self._say, thing))}]"
        if isinstance(thing, tuple):
            return f"({', '.join(map(self._say, thing))}{',' if len(thing) == 1 else ''})"
        return _constant(thing)

    def _done(self) -> Repro:
        origin = self.finding.origin
        head = [
            f'"""{self.finding.verdict}'.replace("\\", "/"),
            "",
            f"Extracted from step {origin.step} of {origin.file}:{origin.line} by Whence "
            f"({self.finding.rule}). Needs only torch.",
            '"""',
            "",
            "import json",
            "from pathlib import Path",
            "",
            "import torch",
            "",
            LOADER,
            *self.sources,
            "",
            'tensors = load(Path(__file__).with_name("FILE"))',
        ]
        return Repro("\n".join([*head, *self.lines]) + "\n", self.tensors)


def _matches(call: Call, value: Value, contents: Contents) -> bool:
    """Whether the call on its own reproduces its result in the step."""
    again, then = attempt(call, contents.of, value), contents.of(value)
    return (
        again is not None
        and then is not None
        and again.shape == then.shape
        and bool(((again == then) | (again != again)).all())
    )


def _constant(thing: Any) -> str:
    if isinstance(thing, float) and not math.isfinite(thing):
        return f'float("{thing}")'
    if isinstance(thing, torch.device):
        return f'torch.device("{thing}")'
    if isinstance(thing, tuple):
        return f"({', '.join(map(_constant, thing))}{',' if len(thing) == 1 else ''})"
    if isinstance(thing, type(...)):
        return "..."
    if type(thing).__module__ == "numpy":
        return repr(thing.item())
    if isinstance(
        thing,
        int
        | float
        | complex
        | str
        | bool
        | slice
        | torch.dtype
        | torch.memory_format
        | torch.layout
        | None,
    ):
        return repr(thing)
    raise CannotWrite
