from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from daf.errors import Exit, UserError
from daf.exporter.texts import read_e2e, read_mrpc

MRPC = ("sentence1", "sentence2", "label", "id1", "id2")
E2E = ("mr", "ref")


def write_csv(file: Path, *rows: Sequence[str]) -> None:
    with gzip.open(file, "wt", encoding="utf-8", newline="") as text:
        csv.writer(text).writerows(rows)


def test_pairs_of_sentences_and_whether_they_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAF_DATA_DIR", str(tmp_path))
    quoted = 'He said "no", twice.'
    write_csv(tmp_path / "mrpc_test.csv.gz", MRPC, (quoted, "Two times no.", "1", "5", "6"), ("a", "b", "0", "7", "8"))
    assert read_mrpc("test", "m") == ([(quoted, "Two times no."), ("a", "b")], [1, 0])


def test_meanings_and_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAF_DATA_DIR", str(tmp_path))
    for name, food in (("train_detok", "French"), ("test", "English")):
        write_csv(tmp_path / f"e2e_{name}.csv.gz", E2E, (f"name[Café], food[{food}]", f"Café is {food}."))
    assert read_e2e("train", "m") == [("name[Café], food[French]", "Café is French.")]
    assert read_e2e("test", "m") == [("name[Café], food[English]", "Café is English.")]


@pytest.mark.parametrize(("read", "file"), [(read_mrpc, "mrpc_test.csv.gz"), (read_e2e, "e2e_test.csv.gz")])
def test_data_that_are_missing_or_damaged_are_named(
    read: Callable[[str, str], object], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def problem() -> str:
        with pytest.raises(UserError) as raised:
            read("test", "the_model")
        assert raised.value.exit_code == Exit.DATA
        assert "the_model" in str(raised.value)
        assert "DAF_DATA_DIR" in str(raised.value)
        return str(raised.value)

    monkeypatch.delenv("DAF_DATA_DIR", raising=False)
    assert file in problem()
    monkeypatch.setenv("DAF_DATA_DIR", str(tmp_path))
    assert "No such file" in problem()
    write_csv(tmp_path / file, ("other", "columns"), ("1", "2"))
    assert "no column" in problem()
    (tmp_path / file).write_bytes(b"not gzip")
    assert "gzip" in problem().lower()
    write_csv(tmp_path / file, MRPC, *[("a", "b", "1", "2", "3")] * 1000)
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:60])
    assert str(tmp_path / file) in problem()
