"""The ring's projections: the tables of quorum as cases, properties against an oracle that counts for itself."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core import quorum
from quorate.core.checks import Outcome
from quorate.core.health import Health, Unknown
from quorate.core.ring import Member, Ring, Verdict

LEADERLESS = None


def ring(letters: str) -> Ring:
    """g, b, u: a member's health; a: well but for an alarm; capital: a learner; -: a member that looks well and never started. Ids count from 1."""
    health = {"g": Health.GOOD, "b": Health.BAD, "a": Health.BAD, "u": Health.UNKNOWN, "-": Health.GOOD}
    members = (
        Member(i, "" if c == "-" else f"cp-{i}", health[c.lower()], c.isupper(), only_alarmed=c in "aA")
        for i, c in enumerate(letters, start=1)
    )
    return Ring(tuple(members), LEADERLESS)


# The member that goes comes first; the letters are all members, as etcd lists them.
REMOVALS = {
    "of one: never": ("g", False),
    "of two good": ("gg", True),
    "of two, the other bad": ("gb", False),
    "of two, the one that goes bad: etcd cannot commit it": ("bg", False),
    "of two, the one that goes with an alarm: it votes for its own removal": ("ag", True),
    "of two, the other with an alarm": ("ga", False),
    "of two, both with an alarm": ("aa", False),
    "of two, the one that goes unknown: without its vote there were no list": ("ug", True),
    "of two, the other unknown: nobody leans on it": ("gu", False),
    "of two, both unknown": ("uu", False),
    "of three good": ("ggg", True),
    "of three, another bad": ("ggb", False),
    "of three, another unknown": ("ggu", False),
    "of three, the bad one itself": ("bgg", True),
    "of three, another with an alarm": ("gga", False),
    "of three, the bad one beside one with an alarm": ("bga", False),
    "of three, two bad": ("bgb", False),
    "of four, one other bad": ("gggb", True),
    "of four, two others bad": ("ggbb", False),
    "of four, itself and one other bad: etcd cannot commit it": ("bbgg", False),
    "of four, itself with an alarm and one other bad": ("abgg", True),
    "of four, itself unknown and one other bad": ("ubgg", True),
    "of four, itself bad and one other unknown": ("bugg", True),
    "of four, itself never started and one other unknown": ("-ugg", True),
    "of four, two bad and the one that goes good": ("gbbu", False),
    "of four, itself bad and one other with an alarm": ("bagg", True),
    "of five, one other bad": ("ggggb", True),
    "of five, two others bad": ("gggbb", False),
    "of five, itself and one other bad": ("bgggb", True),
    "of six, two others bad": ("ggggbb", True),
    "of seven, two others bad": ("gggggbb", True),
    "of seven, three others bad": ("ggggbbb", False),
    "beside a learner, where the voters suffice without it (upstream refuses)": ("gggG", True),
    "beside a learner, where the voters do not suffice without it": ("ggbG", False),
    "of two beside a bad learner (upstream refuses)": ("ggB", True),
    "of the only voter beside a learner": ("gG", False),
    "of the learner itself": ("Ggg", True),
    "of a learner while etcd cannot commit": ("Ggb", False),
    "of a member that never started, of four": ("-ggg", True),
    "of a member that never started, of two: etcd cannot commit it": ("-g", False),
    "of three beside one that never started": ("gg-", False),
    "of four beside one that never started (upstream refuses)": ("ggg-", True),
}

ADDITIONS = {
    "to one good": ("g", True),
    "to one bad": ("b", False),
    "to two good": ("gg", True),
    "to two, one bad": ("gb", False),
    "to three good": ("ggg", True),
    "to three, one bad": ("ggb", False),
    "to three, one unknown": ("ggu", False),
    "to three, one with an alarm": ("gga", False),
    "to four good": ("gggg", True),
    "to four, one bad": ("gggb", True),
    "to four, two bad": ("ggbb", False),
    "to five good": ("ggggg", True),
    "to five, one bad": ("ggggb", True),
    "to five, two bad": ("gggbb", False),
    "beside a learner": ("gggG", False),
    "beside a member that never started": ("gggg-", False),
    "to an empty list, which no running etcd has (upstream allows)": ("", False),
}


@pytest.mark.parametrize(("letters", "allowed"), REMOVALS.values(), ids=REMOVALS.keys())
def test_removal(letters: str, allowed: bool) -> None:
    assert quorum.removal_keeps_quorum(ring(letters), 1).passed is allowed


@pytest.mark.parametrize(("letters", "allowed"), ADDITIONS.values(), ids=ADDITIONS.keys())
def test_addition(letters: str, allowed: bool) -> None:
    assert quorum.quorum_survives_addition(ring(letters)).passed is allowed


@pytest.mark.parametrize(("voters", "may_be_bad"), [(2, 0), (3, 0), (4, 1), (5, 1), (6, 2), (7, 2)])
def test_removal_tolerates_exactly_so_many_others_bad(voters: int, may_be_bad: int) -> None:
    allowed = [bad for bad in range(voters) if ring("g" * (voters - bad) + "b" * bad).after(removing={1})]
    assert allowed == list(range(may_be_bad + 1))


@pytest.mark.parametrize(("voters", "may_be_bad"), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1)])
def test_addition_tolerates_exactly_so_many_bad(voters: int, may_be_bad: int) -> None:
    allowed = [bad for bad in range(voters + 1) if ring("g" * (voters - bad) + "b" * bad).after(adding=1)]
    assert allowed == list(range(may_be_bad + 1))


@pytest.mark.parametrize(
    ("letters", "stands"), [("g", False), ("gg", False), ("ggg", True), ("ggb", False), ("bgg", True), ("gggG", True), ("gg-", False)]
)
def test_one_member_down_for_a_restart(letters: str, stands: bool) -> None:
    assert bool(ring(letters).without(1)) is stands


def test_a_verdict_carries_its_numbers() -> None:
    assert str(Verdict(voters=3, good=3)) == "3 of 3 voters healthy, quorum 2: tolerates 1 more"
    assert str(Verdict(voters=4, good=2)) == "2 of 4 voters healthy, quorum 3: 1 short of quorum"
    assert [Verdict(n, n).quorum for n in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]


def test_a_refused_removal_says_what_would_be_left_and_what_to_do() -> None:
    check = quorum.removal_keeps_quorum(ring("ggb"), 1)
    assert check.evidence == "without cp-1: 1 of 2 voters healthy, quorum 2: 1 short of quorum"
    assert check.remedy.startswith("Bring the failed members back")
    assert quorum.removal_keeps_quorum(ring("gbb"), 2).evidence.startswith("etcd cannot commit a change: at most 1 of 3 voters")


def test_a_member_that_is_gone_already_needs_no_quorum() -> None:
    assert quorum.removal_keeps_quorum(ring("gbb"), 0xBEEF).evidence == "member beef is no longer in the ring"


def test_an_empty_list_proves_nothing() -> None:
    assert quorum.removal_keeps_quorum(ring(""), 1).outcome is Outcome.UNKNOWN


def test_a_ring_that_was_not_read_takes_nobody() -> None:
    check = quorum.quorum_survives_addition(Unknown("dial timeout"))
    assert (check.outcome, check.evidence) == (Outcome.UNKNOWN, "the ring could not be read: dial timeout")


def test_who_has_not_become_a_voter_is_named() -> None:
    letters = ring("gG-")
    assert [m.label for m in letters.unsettled] == ["cp-2", "3 (never started)"]
    assert [m.id for m in letters.learners] == [2]
    assert "cp-2, 3 (never started)" in quorum.quorum_survives_addition(letters).evidence


def test_members_about_to_fail_stay_voters() -> None:
    assert ring("ggg").losing({1, 9}) == ring("bgg")
    assert ring("agg").losing({1}) == ring("bgg")


def test_a_member_with_an_alarm_commits_changes_and_counts_for_no_margin() -> None:
    assert ring("aag").commits == Verdict(voters=3, good=3)
    assert ring("aag").now == Verdict(voters=3, good=1)
    assert ring("Ag").commits == Verdict(voters=1, good=1)


def test_a_member_that_nobody_could_ask_may_take_part_in_changes_and_counts_for_no_margin() -> None:
    assert ring("gu").commits == Verdict(voters=2, good=2)
    assert ring("gu").now == Verdict(voters=2, good=1)
    assert ring("gu").losing({2}).commits == Verdict(voters=2, good=1)


LETTERS = st.text(alphabet="gbuaGBUA-", max_size=8)


def majority(letters: str, of: str = "g") -> bool:
    """The oracle: are more than half of those that vote surely well, or at least one of these letters?"""
    votes = [letter in of for letter in letters if not letter.isupper()]
    return 2 * sum(votes) > len(votes)


@given(LETTERS)
def test_the_verdict_is_that_more_than_half_of_the_voters_answer(letters: str) -> None:
    assert bool(ring(letters).now) is majority(letters)


@given(LETTERS.filter(bool), st.data())
def test_a_removal_is_allowed_exactly_where_majority_holds_before_and_after(letters: str, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(letters) - 1))
    left = letters[:index] + letters[index + 1 :]
    assert quorum.removal_keeps_quorum(ring(letters), index + 1).passed is (majority(letters, of="gau") and majority(left))


@given(LETTERS.filter(bool))
def test_an_addition_is_allowed_exactly_where_majority_holds_even_if_the_new_member_fails(letters: str) -> None:
    settled = not any(letter.isupper() or letter == "-" for letter in letters)
    worst = letters + ("g" if len(letters) == 1 else "b")
    assert quorum.quorum_survives_addition(ring(letters)).passed is (settled and majority(letters) and majority(worst))


@given(LETTERS, st.sets(st.integers(1, 8)), st.integers(0, 3))
def test_projections_do_not_depend_on_the_order_of_members(letters: str, removing: set[int], adding: int) -> None:
    members = list(ring(letters).members)
    random.Random(len(letters)).shuffle(members)
    shuffled = Ring(tuple(members), LEADERLESS)
    assert shuffled.after(removing=removing, adding=adding) == ring(letters).after(removing=removing, adding=adding)
    assert all(shuffled.without(i) == ring(letters).without(i) for i in removing)


@given(LETTERS, st.sets(st.integers(1, 8)))
def test_a_loss_never_makes_a_verdict_better(letters: str, lost: set[int]) -> None:
    assert ring(letters).losing(lost).now.margin <= ring(letters).now.margin
    assert all(ring(letters).losing({i}).now.good == ring(letters).without(i).good for i in lost)
