"""What Whence adds before a program begins: to `import torch`, and to an empty script.

Medians of interleaved runs, one thread. Usage: python bench/startup.py [runs]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(command: list[str], cwd: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return time.perf_counter() - began


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "empty.py").write_text("")
        (Path(folder) / "torch_only.py").write_text("import torch\n")
        commands = {
            "import torch": [sys.executable, "-c", "import torch"],
            "import torch, whence": [sys.executable, "-c", "import torch, whence"],
            "python, script that imports torch": [sys.executable, "torch_only.py"],
            "whence run, script that imports torch": [sys.executable, "-m", "whence", "run", "torch_only.py"],
            "whence run, empty script": [sys.executable, "-m", "whence", "run", "empty.py"],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                taken[name].append(seconds(command, folder))
    for name, each in taken.items():
        print(f"{name:<40} {statistics.median(each):6.3f} s")


if __name__ == "__main__":
    main()
