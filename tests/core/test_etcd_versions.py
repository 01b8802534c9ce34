"""Which etcd may join a ring of which."""

from __future__ import annotations

import pytest

from quorate.core.etcd_versions import FLAGS_KNOWN, MEMBERS_READY, Minor, flags_known, members_ready, minor_of
from quorate.core.health import Health
from quorate.core.ring import Member
from quorate.core.versions import Version


def members(*versions: str) -> list[Member]:
    return [Member(number, f"cp-{number}", Health.GOOD, version=version) for number, version in enumerate(versions, start=1)]


@pytest.mark.parametrize(
    ("kubernetes", "tag", "expected"),
    [
        ("v1.21.9", "", None),
        ("v1.22.0", "", (3, 5)),
        ("v1.33.9", "", (3, 5)),
        ("v1.34.0-rc.1", "", (3, 6)),
        ("v1.36.3", "", (3, 6)),
        ("v1.37.2", "", (3, 7)),
        ("v1.40.0", "", (3, 7)),
        ("v1.34.4", "3.5.26-0", (3, 5)),
        ("v1.33.1", "v3.6.5", (3, 6)),
        ("v1.34.4", "latest", None),
    ],
)
def test_the_etcd_of_a_new_control_plane_is_that_of_its_image_tag_or_kubeadms(kubernetes: str, tag: str, expected: Minor | None) -> None:
    assert minor_of(Version.parse(kubernetes), tag) == expected


@pytest.mark.parametrize(
    ("versions", "wanted", "passes"),
    [
        (("3.5.26", "3.5.27", "3.5.26"), (3, 6), True),
        (("3.5.26", "3.5.24", "3.5.26"), (3, 6), False),
        (("3.5.24", "3.6.5", "3.5.26"), (3, 6), False),
        (("3.5.26", "3.6.5", "3.6.5"), (3, 6), True),
        (("3.6.11", "3.6.12"), (3, 7), True),
        (("3.6.8", "3.7.0"), (3, 7), False),
        (("3.5.26",), (3, 7), False),
        (("3.7.0", "3.7.1"), (3, 8), True),
        (("3.6.5", "3.6.5"), (3, 5), False),
        (("3.6.5", "3.5.24"), (3, 5), True),
        (("3.4.9",), (3, 5), True),
        (("", "", ""), (3, 6), True),
        (("", "3.5.24", ""), (3, 6), False),
        (("nonsense",), (3, 7), True),
        ((), (3, 7), True),
    ],
)
def test_members_must_run_the_patch_that_etcd_asks_for_before_its_next_minor_joins(
    versions: tuple[str, ...], wanted: Minor, passes: bool
) -> None:
    check = members_ready(members(*versions), wanted)
    assert (check.name, check.passed) == (MEMBERS_READY, passes)


def test_a_refusal_names_the_members_what_etcd_asks_for_and_the_way_out() -> None:
    behind = members_ready(members("3.5.26", "3.5.24"), (3, 6))
    assert behind.evidence == "cp-2 runs etcd 3.5.24; etcd asks for 3.5.26 or later before 3.6"
    assert behind.remedy.startswith("Set the tag of etcd's image to 3.5.26 or a later patch with the Kubernetes version that runs now")
    far = members_ready(members("3.5.26"), (3, 7))
    assert far.evidence == "cp-1 runs etcd 3.5.26; etcd asks for 3.6.11 or later before 3.7"
    back = members_ready(members("3.6.5", "3.6.9"), (3, 5))
    assert back.evidence == "etcd 3.5 would join, and every member runs 3.6 or later"
    assert back.remedy.startswith("Set the tag of etcd's image to 3.6.5 or later")


def test_etcd_3_7_starts_with_no_experimental_flag() -> None:
    flags = ("quota-backend-bytes", "experimental-initial-corrupt-check")
    assert flags_known(flags, (3, 6)).passed
    assert flags_known(flags[:1], (3, 7)).passed
    refused = flags_known(flags, (3, 7))
    assert (refused.name, refused.passed) == (FLAGS_KNOWN, False)
    assert "experimental-initial-corrupt-check" in refused.evidence
    assert "quota-backend-bytes" not in refused.evidence
