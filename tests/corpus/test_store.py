from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.corpus import Corpus, Entry, Signature
from harness.corpus.entry import read
from harness.errors import FormatError, UnknownName, UsageError
from harness.minimize.edits import literal_case
from harness.model.codec import to_json
from harness.model.outcome import NodeTrace, Witness
from harness.model.values import tensor_from_array
from harness.model.verdict import Kind


def other(entry: Entry, operator: str) -> Entry:
    return dataclasses.replace(entry, signature=dataclasses.replace(entry.signature, operator=operator))


def test_an_entry_comes_back_as_it_went(tmp_path: Path, entry: Entry) -> None:
    path = Corpus(tmp_path / "corpus").add(dataclasses.replace(entry, victim=entry.case, repro_mlir="// RUN: x\n"))
    found = read(path)
    assert to_json(found.case) == to_json(literal_case(entry.case))
    assert found.victim is not None
    assert to_json(found.victim) == to_json(found.case)
    assert found.reference.calls == entry.reference.calls
    assert found.reference.witness[0].trace == entry.reference.witness[0].trace
    assert found.observed.calls == entry.observed.calls
    assert found.observed.artifacts == {}
    same = (
        "signature",
        "target",
        "severity",
        "title",
        "verdict",
        "status",
        "upstream",
        "route",
        "reproduced",
        "expectation",
        "found",
        "repro",
    )
    for name in same:
        assert getattr(found, name) == getattr(entry, name), name
    assert found.repro_mlir == "// RUN: x\n"
    assert found.path == path


def test_long_traces_and_texts_are_not_kept(tmp_path: Path, entry: Entry) -> None:
    big = tensor_from_array(np.zeros(50_000, "<f4"), "float32")
    witness = Witness((NodeTrace("roll_1", (big,)),), twin=entry.reference.calls[0].output)
    reference = dataclasses.replace(entry.reference, witness=(witness,), message="x" * 100_000)
    found = read(Corpus(tmp_path).add(dataclasses.replace(entry, reference=reference)))
    assert found.reference.witness == (Witness(twin=witness.twin),)
    assert len(found.reference.message) < 50_000


def test_the_same_entry_gives_the_same_bytes(tmp_path: Path, entry: Entry) -> None:
    first, second = Corpus(tmp_path / "a").add(entry), Corpus(tmp_path / "b").add(read(Corpus(tmp_path / "c").add(entry)))
    for file in ("case.json", "entry.toml", "evidence/reference.json", "evidence/observed.json", "evidence/verdict.json"):
        assert (first / file).read_bytes() == (second / file).read_bytes()


def test_find_by_path_name_and_id(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path)
    path = corpus.add(entry)
    corpus.add(other(entry, "flip"))
    for text in (str(path), path.name, entry.id, entry.id[:4]):
        assert corpus.find(text).slug == entry.slug
    with pytest.raises(UnknownName, match=re.escape(path.name)):
        corpus.find(path.name[:-1] + "z")
    with pytest.raises(UnknownName):
        corpus.find("")


def test_an_ambiguous_id_is_refused_with_the_choices(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path)
    by_first: dict[str, Entry] = {}
    for number in range(100):
        candidate = other(entry, f"op{number}")
        rival = by_first.setdefault(candidate.id[0], candidate)
        if rival is not candidate:
            corpus.add(candidate)
            corpus.add(rival)
            break
    with pytest.raises(UsageError, match="2 ids"):
        corpus.find(candidate.id[0])


def test_one_entry_a_bug(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path)
    corpus.add(entry)
    with pytest.raises(UsageError, match="already"):
        corpus.add(entry)
    assert len(corpus.paths()) == 1


def test_update_in_place_and_under_another_name(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path)
    corpus.add(entry)
    fixed = corpus.update(dataclasses.replace(corpus.find(entry.id), status="fixed"))
    assert corpus.find(entry.id).status == "fixed"
    moved = corpus.update(other(read(fixed), "flip"))
    assert corpus.paths() == (moved,)
    corpus.add(entry)
    with pytest.raises(UsageError, match="already"):
        corpus.update(dataclasses.replace(read(moved), signature=entry.signature))
    with pytest.raises(UsageError, match="no entry"):
        corpus.update(dataclasses.replace(entry, path=tmp_path / "elsewhere"))


def test_prune_takes_what_is_fixed(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path)
    kept = corpus.add(entry)
    gone = corpus.add(dataclasses.replace(other(entry, "flip"), status="fixed"))
    assert corpus.prune(dry_run=True) == (gone,)
    assert gone.exists()
    assert corpus.prune() == (gone,)
    assert corpus.paths() == (kept,)


def test_remove_refuses_what_is_no_entry(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path / "corpus")
    corpus.add(entry)
    (tmp_path / "precious").mkdir()
    with pytest.raises(UsageError):
        corpus.remove(tmp_path / "precious")
    with pytest.raises(UsageError):
        corpus.remove(tmp_path / "corpus")


def test_an_entry_that_could_not_be_read_back_is_not_written(tmp_path: Path, entry: Entry) -> None:
    for broken in ({"status": "maybe"}, {"route": "scenic"}, {"reproduced": (3, 2)}, {"verdict": None}):
        with pytest.raises(FormatError):
            Corpus(tmp_path / "corpus").add(dataclasses.replace(entry, **broken))
    assert not (tmp_path / "corpus").exists()


def damage(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(change((path / name).read_bytes())) and None


def in_place_of(name: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        (path / name).unlink()
        make(path / name)

    return harm


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (damage("case.json", lambda data: data.replace(b"roll_1", b"roll_2")), "case.json: changed.*fxdiff corpus update torch-mlir-roll"),
        (damage("evidence/reference.json", lambda data: data[:-20]), "reference.json: changed.*fxdiff corpus update"),
        (damage("entry.toml", lambda data: data[:100]), "entry.toml"),
        (damage("entry.toml", lambda data: b"\xff" + data), "not UTF-8"),
        (damage("entry.toml", lambda data: b""), "format_version"),
        (damage("entry.toml", lambda data: data.replace(b"format_version = 1", b"format_version = 99")), "later fxdiff"),
        (damage("entry.toml", lambda data: data.replace(b"format_version = 1", b'format_version = "1"')), "where int is needed"),
        (damage("entry.toml", lambda data: data.replace(b"format_version = 1", b"format_version = " + b"9" * 10**5)), "not TOML"),
        (damage("entry.toml", lambda data: data.replace(b"format_version = 1", b"format_version = 0x" + b"f" * 10**5)), "positive"),
        (damage("entry.toml", lambda data: data.replace(b'status = "open"', b"status = 0x" + b"f" * 10**5)), "'status' is a int where"),
        (
            damage("entry.toml", lambda data: data.replace(b"reproduced = [", b"reproduced = [0x" + b"f" * 10**5 + b",")),
            "is not two integers",
        ),
        (damage("entry.toml", lambda data: data.replace(b'status = "open"', b'status = "maybe"')), "status 'maybe'"),
        (damage("entry.toml", lambda data: data.replace(b'operator = "roll"', b'operator = "flip"')), "fxdiff corpus update"),
        (damage("entry.toml", lambda data: data.replace(b'kind = "value"', b'kind = "vibe"')), "kind 'vibe'"),
        (lambda path: (path / "case.json").unlink(), "case.json: cannot be read"),
        (lambda path: (path / "evidence/verdict.json").unlink(), "verdict.json"),
        (in_place_of("case.json", os.mkfifo), "case.json: is no file"),
        (in_place_of("case.json", lambda path: path.symlink_to("/dev/zero")), "case.json: is no file"),
        (in_place_of("entry.toml", Path.mkdir), "entry.toml: is no file"),
    ],
)
def test_what_was_changed_or_broken_is_said_with_its_place(
    tmp_path: Path, entry: Entry, harm: Callable[[Path], None], complaint: str
) -> None:
    path = Corpus(tmp_path).add(entry)
    harm(path)
    with pytest.raises(FormatError, match=complaint):
        read(path)


def test_a_corpus_that_is_a_file_is_said_to_be_one(tmp_path: Path, entry: Entry) -> None:
    path = tmp_path / "corpus"
    path.write_text("")
    for attempt in (Corpus(path).paths, Corpus(path).entries, lambda: Corpus(path).find("x"), lambda: Corpus(path).add(entry)):
        with pytest.raises(UsageError, match="is no folder; a corpus is a folder of entries"):
            attempt()


def test_an_accepted_change_is_signed_anew(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path)
    path = corpus.add(entry)
    damage("case.json", lambda data: data.replace(b"roll_1", b"roll_2"))(path)
    changed = corpus.find(path.name, check_hashes=False)
    corpus.update(changed)
    assert [node.name for node in read(path).case.program.operators] == ["roll_2"]


def test_people_may_edit_what_is_theirs(tmp_path: Path, entry: Entry) -> None:
    path = Corpus(tmp_path).add(entry)
    damage("entry.toml", lambda data: data.replace(b'notes = ""', b'notes = "seen"').replace(b"example.org", b"example.com"))(path)
    (path / "repro.py").write_text("raise SystemExit(2)\n")
    found = read(path)
    assert found.notes == "seen"
    assert found.upstream == "https://example.com/issues/1"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format_version": 1}',
        b'{"format_version": 1, "case": {}, "more": 1}',
        b'{"format_version": 2, "case": {}}',
    ],
)
def test_a_case_file_that_is_none(text: bytes) -> None:
    from harness.corpus.files import unpack_case

    with pytest.raises(FormatError):
        unpack_case(text)


KILLED_WRITER = """
import os, pickle, sys
from pathlib import Path
from harness.corpus import Corpus, store
from harness.corpus.entry import read
root, source, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
entry = read(source)
calls = 0
def dying(function):
    def wrapped(*args, **kwargs):
        global calls
        calls += 1
        if calls > step:
            os._exit(9)
        return function(*args, **kwargs)
    return wrapped
store.files.write_bytes = dying(store.files.write_bytes)
store.files.sync_folder = dying(store.files.sync_folder)
store.os.rename = dying(store.os.rename)
store.shutil.rmtree = dying(store.shutil.rmtree)
import dataclasses
import json
Corpus(root).update(dataclasses.replace(entry, status="fixed", path=root / entry.slug)) if sys.argv[4] == "update" else Corpus(root).add(
    dataclasses.replace(entry, path=None))
"""


@pytest.mark.parametrize("action", ["add", "update"])
def test_a_writer_killed_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, entry: Entry, action: str) -> None:
    source = Corpus(tmp_path / "source").add(entry)
    if action == "update":
        Corpus(tmp_path / "corpus").add(entry)
    script = tmp_path / "writer.py"
    script.write_text(KILLED_WRITER)
    env = dict(os.environ, PYTHONPATH=os.getcwd())
    seen = set()
    for step in (0, 3, 8, 9, 10, 11, 12, 50):
        run = subprocess.run([sys.executable, str(script), str(tmp_path / "corpus"), str(source), str(step), action], env=env, check=False)
        corpus = Corpus(tmp_path / "corpus")
        found = [each.status for each in corpus.entries()]
        if run.returncode == 0:
            assert found == ["fixed" if action == "update" else "open"]
            break
        assert run.returncode == 9
        seen.add(tuple(found))
        if found == ["open"] and action == "add":
            corpus.remove(corpus.paths()[0])
    else:
        pytest.fail("the writer never came through")
    assert not [name for name in os.listdir(tmp_path / "corpus") if name.startswith(".")]
    assert seen <= ({(), ("open",)} if action == "add" else {("open",), ("fixed",)})


def test_writers_at_once_do_not_disturb_each_other(tmp_path: Path, entry: Entry) -> None:
    corpus = Corpus(tmp_path)
    entries = [other(entry, f"op{number}") for number in range(8)]
    threads = [threading.Thread(target=corpus.add, args=(each,)) for each in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.id for each in corpus.entries()) == sorted(each.id for each in entries)


def test_an_absent_corpus_is_empty(tmp_path: Path) -> None:
    assert Corpus(tmp_path / "none").entries() == ()


def test_reading_does_not_import_torch() -> None:
    code = "import sys, harness.corpus, harness.reproducers.torch_mlir; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_signature_needs_a_known_kind() -> None:
    assert Signature("a", Kind.OOM, "", "b").key == "v1|a|oom||b|any|"


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ([1 << 40], "more than 134217728 elements"),
        ([1 << 15, 1 << 15, 2], "more than 134217728 elements"),
        ([1] * 100, "at most 32 are taken"),
    ],
)
def test_a_case_file_of_giant_tensors_is_refused_before_anything_is_made(entry: Entry, shape: list[int], said: str) -> None:
    from harness.corpus.files import pack_case, unpack_case

    parsed = json.loads(pack_case(entry.case))
    given = next(node for node in parsed["case"]["program"]["nodes"] if node["op"] == "placeholder")
    given["spec"]["spec"]["shape"] = shape
    with pytest.raises(FormatError, match=said):
        unpack_case(json.dumps(parsed).encode())
