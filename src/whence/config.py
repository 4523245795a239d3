"""User settings, from the command line and `[tool.whence]` in pyproject.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from whence.finding import Severity


class UsageError(Exception):
    """A request that cannot be met; the text says what was expected.

    Printed without a traceback, with exit code 2.
    """


@dataclass(frozen=True, slots=True)
class Config:
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    budget: float = 0.03
    fail_on: Severity | None = None
    stop_on: Severity | None = None
    steps: int | None = None
    """Stop watching after this many steps; the program continues."""
    hang_after: float = 60.0
    """Seconds without computation after which a hang is reported."""
    no_child: bool = False
    """Fork no child processes, and skip what needs them."""
    no_values: bool = False
    """Write no tensor value anywhere."""

    def wants(self, rule_id: str) -> bool:
        def named(patterns: tuple[str, ...]) -> bool:
            return any(
                rule_id == each or rule_id.startswith(each.rstrip("/") + "/") for each in patterns
            )

        return (not self.select or named(self.select)) and not named(self.ignore)


KEYS = tuple(field.name.replace("_", "-") for field in fields(Config))


def read_config(start: Path) -> Config:
    """Read the `[tool.whence]` table of the nearest pyproject.toml at or above a folder."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return _from_table(_table(path), path)
    return Config()


def _table(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as TOML: {error}") from error
    tools = document.get("tool", {})
    table = tools.get("whence", {}) if isinstance(tools, dict) else None
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [tool.whence] must be a table with the keys {', '.join(KEYS)}")
    return table


def _from_table(table: dict[str, Any], path: Path) -> Config:
    config = Config()
    for given, value in table.items():
        key = given.replace("_", "-")
        if key not in KEYS:
            raise UsageError(
                f"{path}: unknown key {given!r} in [tool.whence]; valid keys are {', '.join(KEYS)}"
            )
        config = replace(config, **{key.replace("-", "_"): _parsed(key, value, path)})
    return config


def _parsed(key: str, value: Any, path: Path) -> Any:
    if key in ("select", "ignore"):
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise UsageError(
                f'{path}: {key} in [tool.whence] must be a list of rule ids, such as ["shape", '
                '"dtype/promoted"]'
            )
        return rule_patterns(value, f"{path}: {key}")
    if key == "budget":
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
            raise UsageError(
                f"{path}: budget in [tool.whence] must be a share of the run's time between 0 "
                "and 1, such as 0.03"
            )
        return float(value)
    if key == "steps":
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(
                f"{path}: steps in [tool.whence] must be a number of steps, such as 50"
            )
        return value
    if key == "hang-after":
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            raise UsageError(
                f"{path}: hang-after in [tool.whence] must be a number of seconds, such as 60"
            )
        return float(value)
    if key in ("no-child", "no-values"):
        if not isinstance(value, bool):
            raise UsageError(f"{path}: {key} in [tool.whence] must be true or false")
        return value
    return severity(value, f"{path}: {key}")


def severity(value: Any, where: str) -> Severity | None:
    if value == "never":
        return None
    try:
        return Severity(value)
    except ValueError:
        raise UsageError(
            f"{where} must be one of info, warning, error, never; got {value!r}"
        ) from None


def rule_patterns(given: list[str], where: str) -> tuple[str, ...]:
    """Check that each pattern names a rule or a family."""
    from whence.rules.rule import rule_ids

    known = rule_ids()
    families = {each.split("/")[0] for each in known}
    for pattern in given:
        if pattern.rstrip("/") not in families and pattern not in known:
            near = [each for each in known if each.split("/")[-1] in pattern or pattern in each]
            hint = (
                f"; did you mean {', '.join(near[:3])}?" if near else "; `whence rule` lists them"
            )
            raise UsageError(f"{where}: no rule or family named {pattern!r}{hint}")
    return tuple(given)
