"""Every scenario with our rules and with one that is wrong, and the list whole: a campaign that does not find every known bug again proves nothing."""

from __future__ import annotations

import pytest

from tests.simulation import (
    scenarios_external_etcd,
    scenarios_in_place,
    scenarios_lifecycle,
    scenarios_membership,
    scenarios_remediation,
    scenarios_restores,
)
from tests.simulation.staging import Scenario

SCENARIOS = (
    *scenarios_membership.SCENARIOS,
    *scenarios_lifecycle.SCENARIOS,
    *scenarios_remediation.SCENARIOS,
    *scenarios_external_etcd.SCENARIOS,
    *scenarios_restores.SCENARIOS,
    *scenarios_in_place.SCENARIOS,
)
KNOWN_BUGS = {f"B{number}" for number in (*range(1, 21), 23, 24)}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_it_ends_well(scenario: Scenario) -> None:
    played = scenario.with_our_rules()
    assert not played.violations, "\n".join([*map(str, played.violations), *played.lines[-60:]])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.name}; wrong: {scenario.rule}")
def test_a_wrong_rule_does_not_get_through(scenario: Scenario) -> None:
    played = scenario.with_the_wrong_rule()
    assert scenario.breaks in played.broken, "\n".join(
        [f"{played.broken or 'nothing'} instead", *map(str, played.violations), *played.lines[-60:]]
    )


def test_every_known_bug_has_a_scenario() -> None:
    assert {scenario.name.split()[0] for scenario in SCENARIOS if scenario.name.startswith("B")} == KNOWN_BUGS


def test_no_two_scenarios_have_one_name() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def test_all_four_remediation_scenarios_of_the_proposal_are_there() -> None:
    names = {scenario.name for scenario in SCENARIOS}
    assert all(any(name.startswith(f"scenario {number}:") for name in names) for number in range(1, 5))
