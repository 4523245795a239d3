"""Unsigned arithmetic wrapped around.

What happened
    uint8 numbers were added or subtracted, and the result does not fit: 10 - 20 is 246.
Why it matters
    Dark pixels become bright ones. Nothing raises, and the data look almost right.
How it is detected
    Each addition or subtraction of uint8 (int8) tensors while calls are recorded is made again with more room, and compared.
How to fix it
    Convert to float (or int16) before the arithmetic.
When it stays silent
    Results that fit; bit operations; a few elements that wrap (hashes and checksums wrap on purpose and are made of wider integers).
Cost
    None where there is no uint8 arithmetic.
"""

from __future__ import annotations

import torch

from whence.finding import Finding
from whence.rules.rule import call_rule
from whence.rules.telling import dtype_name, tell_call
from whence.tape.tape import Call, Value

SIGNS = {"add": 1, "__add__": 1, "sub": -1, "__sub__": -1, "subtract": -1}
NARROW = (torch.uint8, torch.int8)


@call_rule("dtype/uint8-wrap")
def wrapped(call: Call) -> Finding | None:
    sign = SIGNS.get(call.name)
    if (
        sign is None
        or not call.outputs
        or call.outputs[0].dtype not in NARROW
        or call.site is None
        or len(call.args) < 2
    ):
        return None
    one, other = (each.tensor if isinstance(each, Value) else each for each in call.args[:2])
    result = call.outputs[0].tensor
    if not isinstance(one, torch.Tensor) or other is None or result is None or result.numel() == 0:
        return None
    wide = one.to(torch.int32) + sign * (other.to(torch.int32) if isinstance(other, torch.Tensor) else other)
    wrong = wide != result
    share = float(wrong.float().mean())
    if share < 0.01:
        return None
    index = tuple(torch.nonzero(wrong)[0].tolist())
    verdict = f"{dtype_name(result.dtype)} arithmetic wrapped around in {share:.0%} of the elements: {int(wide[index])} became {int(result[index])}"
    return tell_call(
        call,
        "dtype/uint8-wrap",
        verdict=verdict,
        why=f"{dtype_name(result.dtype)} holds {'0 to 255' if result.dtype is torch.uint8 else '-128 to 127'}; what goes beyond begins again at the other end.",
        fix="Convert before the arithmetic: .float() or .to(torch.int16).",
        what=verdict,
    )
