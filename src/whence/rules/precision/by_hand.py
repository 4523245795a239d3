"""Gradients that the program clips itself while they are still scaled."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind
from whence.lineage.ancestry import ancestors
from whence.rules.telling import silent_finding, spot_at
from whence.source.sites import Site
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call, Value

SHRINKS = frozenset({"mul_", "__imul__", "div_", "__itruediv__", "clamp_", "clip_"})
OF_WEIGHTS = ("grad.__get__", "data.__get__", "detach")
SCALED = 2.0


def clipped_manually(audit: Audit) -> Finding | None:
    """`p.grad.mul_(limit / norm)` between backward and the scaler's step, which unscales."""
    scales = [each for each in audit.loop.of(Kind.SCALE) if each.detail["scale"] > SCALED]
    unscaled = [each for each in audit.loop.of(Kind.UNSCALE) if each.site is not None]
    if not scales or not unscaled:
        return None
    backwards = [each.number for each in audit.tape.calls if each.name in BACKWARDS]
    found: dict[Site, list[tuple[Call, Event]]] = {}
    for call in _clips(audit):
        after = _unscaled_after(call, unscaled, backwards)
        if after is not None and call.site is not None:
            found.setdefault(call.site, []).append((call, after))
    for site, pairs in found.items():
        if len({call.step for call, _ in pairs}) < 2:
            continue
        call, after = pairs[-1]
        scale = scales[-1].detail["scale"]
        return silent_finding(
            audit,
            "precision/clip-before-unscale",
            spot=spot_at(site),
            symptom=spot_at(after.site),
            step=pairs[0][0].step,
            call=call,
            phase="backward",
            # A factor that does not depend on the scale (a ratio of two gradients) is harmless.
            severity=Severity.INFO,
            confidence=Confidence.LIKELY,
            verdict=f"gradients are clipped before they are unscaled (loss scale {scale:g})",
            what="the gradients are unscaled after the clip",
            why=f"The gradients are {scale:g} times too large when they are clipped. Unscaling "
            "then divides the clipped gradients by the same factor.",
            fix="Call scaler.unscale_(optimizer) before the clip.",
        )
    return None


def _clips(audit: Audit) -> Iterator[Call]:
    """In-place changes of gradients by a factor made from gradients, or a clamp."""
    for call in audit.tape.calls:
        if call.name not in SHRINKS or call.phase == "optimizer" or call.inner or not call.operands:
            continue
        if not _is_gradient(call.operands[0]):
            continue
        factors = call.operands[1:]
        if call.name.startswith(("clamp", "clip")) or any(
            each.name == "grad.__get__" for factor in factors for each in ancestors(factor)
        ):
            yield call


def _is_gradient(value: Value) -> bool:
    call = value.call
    while call is not None and call.name in (*OF_WEIGHTS[1:], *SHRINKS) and call.operands:
        call = call.operands[0].call
    return call is not None and call.name == OF_WEIGHTS[0]


def _unscaled_after(call: Call, unscaled: list[Event], backwards: list[int]) -> Event | None:
    """The unscale event of the gradients that a call has changed, if it comes after the call."""
    numbers = [each.detail["number"] for each in unscaled]
    place, last = bisect_right(numbers, call.number), bisect_right(backwards, call.number)
    if place == len(unscaled) or unscaled[place].step != call.step or not last:
        return None
    return unscaled[place] if not place or numbers[place - 1] <= backwards[last - 1] else None
