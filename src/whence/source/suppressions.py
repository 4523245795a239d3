"""Suppressions: `# whence: ignore[family/kind]` on the line of a finding's origin."""

from __future__ import annotations

import re

from whence.finding import Finding
from whence.source.text import line_of

COMMENT = re.compile(r"#\s*whence:\s*ignore\[([^\]]*)\]")


def is_suppressed(finding: Finding) -> bool:
    found = COMMENT.search(line_of(finding.origin.file, finding.origin.line))
    if found is None:
        return False
    return finding.rule in {each.strip() for each in found.group(1).split(",")}
