"""Of two runs one is confirmed: by the Lease, or by more than half of the control-plane hosts, whichever of them each reaches."""

from __future__ import annotations

from itertools import product

import pytest

from quorate.hosts.run.lock_confirmed import TRUSTED, confirmed_until
from quorate.hosts.run.lock_file import LASTS

NOW = 100.0


@pytest.mark.parametrize("hosts", range(1, 6))
def test_no_two_runs_have_more_than_half_of_the_hosts(hosts: int) -> None:
    for owners in product(("jane", "john", "nobody"), repeat=hosts):
        confirmed = [
            who
            for who in ("jane", "john")
            if confirmed_until(NOW, lease=None, asked=NOW, locks=[NOW] * owners.count(who), hosts=hosts) is not None
        ]
        assert len(confirmed) < 2, owners
        assert confirmed == [who for who in ("jane", "john") if 2 * owners.count(who) > hosts]


def test_what_is_not_fresh_confirms_nothing() -> None:
    old = NOW - TRUSTED - 1
    assert confirmed_until(NOW, lease=NOW - TRUSTED, asked=None, locks=(), hosts=3) == NOW - TRUSTED + LASTS
    assert confirmed_until(NOW, lease=old, asked=old, locks=(NOW, old, NOW), hosts=3) is None
    assert confirmed_until(NOW, lease=None, asked=NOW, locks=(NOW, old, old), hosts=3) is None
    assert confirmed_until(NOW, lease=None, asked=NOW, locks=(NOW, old, NOW - 1), hosts=3) == NOW - 1 + LASTS


def test_most_of_the_hosts_confirm_nobody_who_has_not_asked_for_the_lease_just_now() -> None:
    assert confirmed_until(NOW, lease=None, asked=None, locks=(NOW, NOW, NOW), hosts=3) is None
    assert confirmed_until(NOW, lease=None, asked=NOW - TRUSTED - 1, locks=(NOW, NOW, NOW), hosts=3) is None
    assert confirmed_until(NOW, lease=None, asked=NOW - 20, locks=(NOW, NOW, NOW), hosts=3) == NOW - 20 + LASTS


def test_a_cluster_all_of_whose_hosts_are_vouched_for_is_confirmed_by_the_lease_alone() -> None:
    assert confirmed_until(NOW, lease=None, asked=NOW, locks=(), hosts=0) is None
    assert confirmed_until(NOW, lease=NOW, asked=NOW, locks=(), hosts=0) == NOW + LASTS
