"""Which etcd may join a ring of which: what etcd itself asks for before an upgrade to its next minor version.

From 3.6 on a member reads membership from the new store alone. Where an old etcdctl, or a forced new cluster, left members in it that are gone, they come back
as voters ("zombie members"), and the ring may lose its quorum at once; 3.5.26 repairs the new store. Replacing members one by one does not: each newcomer gets
a copy. 3.7 starts with no flag whose name begins with `experimental-`, and asks for 3.6.11.

Source: etcd's CHANGELOG-3.6 and CHANGELOG-3.7 and its notice on zombie members; kubeadm's cmd/kubeadm/app/constants/constants.go (v1.34.4 to v1.37.2) for the
etcd that it brings where no image tag is set.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.checks import Check, failed, passed
from quorate.core.ring import Member
from quorate.core.versions import Version, parse_or_none

MEMBERS_READY = "every etcd member is ready for the etcd that joins"
FLAGS_KNOWN = "the etcd that joins knows its flags"

EXPERIMENTAL = "experimental-"

Minor = tuple[int, int]

_NEEDED_BEFORE: dict[Minor, Version] = {(3, 6): Version.parse("3.5.26"), (3, 7): Version.parse("3.6.11")}
_BROUGHT_BY: tuple[tuple[Minor, Minor], ...] = (((1, 37), (3, 7)), ((1, 34), (3, 6)), ((1, 22), (3, 5)))
"""From which Kubernetes on kubeadm brings which etcd, the newest first. A Kubernetes that is newer than all of these brings that etcd or a newer one."""
_WITHOUT_EXPERIMENTAL_FLAGS: Minor = (3, 7)


def minor_of(kubernetes: Version, image_tag: str = "") -> Minor | None:
    """The minor version of the etcd that comes with a new control plane: that of the image tag where one is set (`3.6.11-0`), else kubeadm's own.

    None where neither says: a tag that is no version, or a Kubernetes older than 1.22.
    """
    if image_tag:
        tagged = parse_or_none(image_tag)
        return _minor(tagged) if tagged is not None else None
    return next((etcd for since, etcd in _BROUGHT_BY if _minor(kubernetes) >= since), None)


def members_ready(members: Iterable[Member], wanted: Minor) -> Check:
    """May a member of this minor version of etcd join these? One that does not tell its version is left out: so does Cluster API's in-memory provider."""
    versions = {member.label: version for member in members if (version := parse_or_none(member.version)) is not None}
    joins = _name(wanted)
    newer = [version for version in versions.values() if _minor(version) > wanted]
    if newer and len(newer) == len(versions):
        remedy = f"Set the tag of etcd's image to {min(newer)} or later: etcd cannot be taken back to an older minor version."
        return failed(MEMBERS_READY, f"etcd {joins} would join, and every member runs {_name(_minor(min(newer)))} or later", remedy)
    behind = {label: version for label, version in versions.items() if _is_behind(version, wanted)}
    if not behind:
        return passed(
            MEMBERS_READY, f"etcd {joins} may join {', '.join(sorted({str(version) for version in versions.values()})) or 'them'}"
        )
    oldest = min(behind.values())
    first, before = _first_needed(oldest)
    told = ", ".join(f"{label} runs etcd {version}" for label, version in sorted(behind.items()))
    remedy = (
        f"Set the tag of etcd's image to {first} or a later patch with the Kubernetes version that runs now, let it roll out, then upgrade: "
        "members that left long ago may come back as voters otherwise."
    )
    return failed(MEMBERS_READY, f"{told}; etcd asks for {first} or later before {_name(before)}", remedy)


def flags_known(flags: Iterable[str], wanted: Minor) -> Check:
    """Does an etcd of this minor version start with these flags?"""
    removed = sorted(flag for flag in flags if flag.startswith(EXPERIMENTAL)) if wanted >= _WITHOUT_EXPERIMENTAL_FLAGS else []
    if not removed:
        return passed(FLAGS_KNOWN, f"etcd {_name(wanted)} has all of them")
    remedy = f"Take {', '.join(removed)} out of etcd's extraArgs, or use what etcd's notes on {_name(wanted)} name in its stead."
    return failed(FLAGS_KNOWN, f"etcd {_name(wanted)} does not start with {', '.join(removed)}", remedy)


def _is_behind(version: Version, wanted: Minor) -> bool:
    """Whether a member must be brought to a later version before one of `wanted` may join it."""
    return _minor(version) < wanted and (_next(_minor(version)) != wanted or version < _NEEDED_BEFORE.get(wanted, version))


def _first_needed(oldest: Version) -> tuple[Version, Minor]:
    """What the oldest member has to be brought to first, and before which minor version: a patch of its own minor version, or else one of the next."""
    following = _next(_minor(oldest))
    needed = _NEEDED_BEFORE.get(following, oldest)
    if oldest < needed:
        return needed, following
    after = _next(following)
    return _NEEDED_BEFORE.get(after, Version.parse(f"{_name(following)}.0")), after


def _minor(version: Version) -> Minor:
    return version.major, version.minor


def _next(minor: Minor) -> Minor:
    return minor[0], minor[1] + 1


def _name(minor: Minor) -> str:
    return f"{minor[0]}.{minor[1]}"
