"""Records of runs: for the operator's eyes only, whole up to a kill, the last twenty kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quorate.core.checks import failed
from quorate.hosts.run import records
from quorate.hosts.run.events import (
    LINES,
    Ended,
    Event,
    Observed,
    Outcome,
    Progress,
    Started,
    StepBegun,
    StepBroke,
    StepDone,
    Waiting,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CHECK = failed("quorum", "1 of 3", "Bring it back.")
ALL: list[Event] = [
    Started(NOON, "apply", "demo", "v1.34.4", "jane@desk", ("cp-1",)),
    Observed(NOON, "1 of 1", 0, {"cp-1": "well"}),
    StepBegun(NOON, 1, "join cp-2", "join control planes", ("cp-2",), (CHECK,)),
    Progress(NOON, "cp-2", "pulling images"),
    StepBroke(NOON, 1, "join cp-2", "cp-2", "no answer", "Look at it"),
    StepDone(NOON, 1, "join cp-2"),
    Waiting(NOON, (CHECK,), NOON + timedelta(seconds=5)),
    Ended(NOON, Outcome.STALLED, 1, "nothing more can be done", (CHECK,)),
]


def test_every_event_comes_back_from_its_line() -> None:
    assert LINES.decode(LINES.encode(event) for event in ALL) == ALL


def test_a_last_line_that_was_cut_short_is_left_out_and_any_other_is_an_error() -> None:
    lines = [LINES.encode(event) for event in ALL]
    assert LINES.decode([*lines[:-1], lines[-1][:20]]) == ALL[:-1]
    with pytest.raises(ValueError, match="line 2 is no event"):
        LINES.decode([lines[0], lines[1][:20], lines[2]])


def test_its_name_can_be_typed_without_quotes(tmp_path: Path) -> None:
    with records.Record(tmp_path) as record:
        record.write(Started(NOON, "certificates renew", "demo", "v1.34.4", "jane@desk", ("cp-1",)))
    assert record.path is not None
    assert record.path.name == "20260101T120000000000Z-certificates-renew.jsonl"


def test_a_record_is_beside_the_manifest_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = records.folder_of(tmp_path / "kubeone.yaml", "demo")
    with records.Record(folder) as record:
        for event in ALL:
            record.write(event)
        assert record.path is not None
        assert records.read(record.path) == ALL  # while it is open: every event is there at once
    assert folder == tmp_path / "demo-runs"
    assert (folder.stat().st_mode & 0o777, record.path.stat().st_mode & 0o777) == (0o700, 0o600)
    assert record.path.name == "20260101T120000000000Z-apply.jsonl"
    assert records.newest(folder) == record.path


def test_the_last_twenty_are_kept(tmp_path: Path) -> None:
    for second in range(25):
        with records.Record(tmp_path) as record:
            record.write(Started(NOON + timedelta(seconds=second), "apply", "demo", "v1.34.4", "jane", ()))
    left = records.all_in(tmp_path)
    assert len(left) == records.KEPT
    assert left[0].name.startswith("20260101T120005")


def test_a_folder_that_is_the_users_and_what_is_in_it_stay_as_they_are(tmp_path: Path) -> None:
    theirs, link = tmp_path / "sales", tmp_path / "demo-runs"
    theirs.mkdir()
    theirs.chmod(0o755)
    for year in range(1990, 2020):
        (theirs / f"{year}-sales.jsonl").write_text("precious\n")
    link.symlink_to(theirs)
    with records.Record(link) as record:
        record.write(ALL[0])
    assert len(list(theirs.glob("*-sales.jsonl"))) == 30
    assert theirs.stat().st_mode & 0o777 == 0o755
    assert records.all_in(link) == [record.path]


def test_nothing_is_made_before_there_is_something_to_write(tmp_path: Path) -> None:
    with records.Record(tmp_path / "runs"):
        pass
    assert not (tmp_path / "runs").exists()


def test_a_record_that_is_missing_or_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(records.RecordError, match="there is no record of a run"):
        records.newest(tmp_path)
    with pytest.raises(records.RecordError, match="cannot be read"):
        records.read(tmp_path / "nowhere")
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(records.RecordError, match="line 1 is no event"):
        records.read(tmp_path / "other.jsonl")
