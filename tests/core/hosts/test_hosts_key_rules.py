"""What is refused for the sake of keys: API servers that cannot read each other's Secrets, and options with which something could not be read any more."""

from __future__ import annotations

import pytest

from quorate.core.health import Unknown
from quorate.core.hosts.encryption import IDENTITY, PLAIN, SECRETS, Configuration, Desired, Encryption
from quorate.core.hosts.rules import encryption
from quorate.core.hosts.state import RunOptions
from quorate.core.hosts.steps import ChangeEncryption, Join

from .conftest import Build

A, B = "secretbox:a:1", "secretbox:b:2"


def keys(*providers: str) -> Encryption:
    """Of an API server that stores with the first of these."""
    return Encryption(Configuration.made({SECRETS: providers}), flagged=True)


def both(*providers: str) -> Configuration:
    """Of Secrets, and of ConfigMaps with these."""
    return Configuration.made({SECRETS: (A, IDENTITY), "configmaps": providers})


@pytest.mark.parametrize(("third", "said"), [(keys(B, IDENTITY), encryption.KEYS_AGREE), (Unknown("no file"), encryption.KEYS_KNOWN)])
def test_nobody_is_given_keys_with_which_somebody_could_not_read_what_others_store(
    build: Build, third: Encryption | Unknown, said: str
) -> None:
    ours = keys(A, IDENTITY)
    hosts = [build.host(number, encryption=ours) for number in (1, 2)]
    wanted = Desired(ours.configuration, written=A)
    cluster = build.cluster(*hosts, build.host(3, encryption=third), build.prepared(4), encryption=wanted)
    assert build.step(cluster) is None
    assert said in build.refused(cluster)
    assert build.step(build.cluster(*hosts, build.host(3, encryption=ours), build.prepared(4), encryption=wanted)) == Join("cp-4")


def test_no_configuration_comes_with_which_what_is_stored_as_plain_text_could_not_be_read(build: Build) -> None:
    """Secrets are written anew, and others are not."""
    hosts = [build.host(number, encryption=Encryption()) for number in (1, 2, 3)]
    cluster = build.cluster(*hosts, encryption=Desired(both(A)))
    assert build.step(cluster) is None
    assert encryption.STAYS_READABLE in build.refused(cluster)
    assert isinstance(build.step(build.cluster(*hosts, encryption=Desired(both(A, IDENTITY)))), ChangeEncryption)


def test_a_key_that_is_not_quorates_is_not_rotated(build: Build) -> None:
    hosts = [build.host(number, encryption=Encryption()) for number in (1, 2, 3)]
    cluster = build.cluster(*hosts, encryption=Desired(PLAIN), options=RunOptions(rotate_encryption_key=True))
    assert build.step(cluster) is None
    assert encryption.ROTATABLE in build.refused(cluster)


def test_nothing_is_changed_for_whose_end_etcd_could_not_be_asked(build: Build) -> None:
    """Only where something would be: a cluster whose keys are as they should be is left alone."""
    hosts = [build.host(number, encryption=Encryption()) for number in (1, 2, 3)]
    cluster = build.cluster(*hosts, encryption=Desired(None, unasked="it is in other servers"))
    assert build.step(cluster) is None
    assert encryption.STORED_IN_ONE_PLACE in build.refused(cluster)
    cluster = build.cluster(*hosts, encryption=Desired(PLAIN, unasked="it is in other servers"))
    assert encryption.STORED_IN_ONE_PLACE not in build.refused(cluster)
