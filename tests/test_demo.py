from __future__ import annotations

from pathlib import Path

from commands import daf


def test_demo_learns_what_pytorch_learns(tmp_path: Path) -> None:
    out = tmp_path / "new" / "demo"
    done = daf("demo", "--out", out)
    assert done.returncode == 0, done.stderr
    lines = (out / "report.md").read_text().splitlines()
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:-1]] for line in lines if (cells := line.split("|"))[1:]
    }
    ours, peer = (float(text.removesuffix(" %")) for text in rows["test accuracy"][:2])
    assert ours > 95
    assert abs(ours - peer) <= 0.5
    # Not further from PyTorch than PyTorch's float32 is from float64, up to the luck of rounding.
    for name in ("loss of the last step", "norm of the weights"):
        difference, own_error = map(float, rows[name][2:])
        assert difference < 10 * own_error
    assert {path.name for path in out.iterdir()} >= {"cnn_digits.pte", "run.trace", "weights.safetensors"}
