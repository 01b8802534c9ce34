"""The list of known bugs that the scenarios are to show, whole: a campaign that does not find every one of them again proves nothing."""

from __future__ import annotations

from tests.simulation import test_scenarios_external_etcd, test_scenarios_life, test_scenarios_membership, test_scenarios_remediation

SCENARIOS = (
    *test_scenarios_membership.SCENARIOS,
    *test_scenarios_life.SCENARIOS,
    *test_scenarios_remediation.SCENARIOS,
    *test_scenarios_external_etcd.SCENARIOS,
)
KNOWN_BUGS = {f"B{number}" for number in (*range(1, 21), 23, 24)}


def test_every_known_bug_has_a_scenario() -> None:
    assert {scenario.name.split()[0] for scenario in SCENARIOS if scenario.name.startswith("B")} == KNOWN_BUGS


def test_no_two_scenarios_have_one_name() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def test_all_four_remediation_scenarios_of_the_proposal_are_there() -> None:
    names = {scenario.name for scenario in SCENARIOS}
    assert all(any(name.startswith(f"scenario {number}:") for name in names) for number in range(1, 5))
