"""The end of a program: the state that it prints, and its exit code or exception."""

from __future__ import annotations

from draw import Draw
from script import Script, block

FINGERPRINT = block('''
    def fingerprint(*parts):
        """One hash of tensors, states and numbers, bit for bit."""
        sha = hashlib.sha256()

        def add(part):
            if isinstance(part, torch.Tensor):
                sha.update(f"{part.dtype} {tuple(part.shape)}".encode())
                flat = part.detach().reshape(-1).contiguous()
                sha.update(flat.view(torch.uint8).numpy().tobytes())
            elif isinstance(part, dict):
                for key, value in part.items():
                    add(str(key))
                    add(value)
            elif isinstance(part, (list, tuple)):
                for value in part:
                    add(value)
            else:
                sha.update(repr(part).encode())

        for part in parts:
            add(part)
        return sha.hexdigest()[:16]
    ''')


def state_text(script: Script, *, weights: str, gradients: str) -> str:
    """Print hashes of weights, buffers, optimizers and further state."""
    further = ", ".join(script.digested)
    lines = [
        f'print("weights", fingerprint({weights}))',
        f'print("gradients", fingerprint([each.grad for each in {gradients}]))',
    ]
    if further:
        lines.append(f'print("state", fingerprint({further}))')
    return "\n".join(lines)


def closing_text() -> str:
    return block("""
        _, keys, position, *_ = np.random.get_state()
        streams = (torch.get_rng_state(), random.getstate(), keys.tolist(), position)
        print("streams", fingerprint(*streams))
        print("counts", dict(sorted(counts.items())))
        """)


def write_ending(draw: Draw, script: Script) -> str:
    match draw.axis("ending", ["normal"] * 8 + ["exit_code", "exit_text", "exception"]):
        case "exit_code":
            script.imports.add("import sys")
            return f"sys.exit({draw.number(3, 17, 42)})"
        case "exit_text":
            script.imports.add("import sys")
            return 'sys.exit("the quota for today is used up")'
        case "exception":
            return (
                "raise ConnectionError(f\"could not send the results of {counts['steps']} steps\")"
            )
    return ""
