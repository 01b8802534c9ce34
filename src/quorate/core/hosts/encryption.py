"""The order in which API servers change the keys for Secrets, so that each can always read what any other has written. Pure.

A provider is named by an id that tells keys apart and reveals none. The first provider of a list writes, all of them read. From one list to another all API
servers go through the same stages, one server after the other: those that are to write must be read by all before (adding), they become the first
(switching), every Secret is written anew (rewriting), and what nothing is stored with any more goes (dropping). Two servers are never more than one stage
apart, and neighbouring stages read each other.
Source: kubernetes.io, "Encrypting Confidential Data at Rest", on rotating a key and on decrypting all data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Providers = tuple[str, ...]

IDENTITY = "identity"
"""Stores as plain text, and reads what is stored so."""
NEW = "new"
"""A key that is yet to be generated."""
SECRETS = "secrets"
_PLAIN: Providers = (IDENTITY,)


@dataclass(frozen=True, slots=True)
class Configuration:
    """By which providers an API server stores each resource, such as `secrets` or `*.*`; one that is not named, and not meant by a wildcard, is plain."""

    resources: tuple[tuple[str, Providers], ...] = ()

    @classmethod
    def made(cls, resources: Mapping[str, Providers]) -> Configuration:
        """With its resources in the order that counts: the first that fits is used. Those that are plain and meant by no wildcard need no mention."""
        wildcards = any(name.startswith("*") for name in resources)
        named = {name: providers for name, providers in resources.items() if wildcards or providers != _PLAIN}
        return cls(tuple(sorted(named.items(), key=lambda each: (each[0] == "*.*", each[0].startswith("*"), each[0]))))

    @property
    def names(self) -> tuple[str, ...]:
        """The resources that are named."""
        return tuple(name for name, _ in self.resources)

    @property
    def secrets(self) -> Providers:
        """Those of Secrets."""
        return self.of(SECRETS)

    @property
    def keys(self) -> frozenset[str]:
        """Every provider but the plain one."""
        return frozenset(provider for _, providers in self.resources for provider in providers) - {IDENTITY}

    @property
    def in_words(self) -> str:
        """How an API server with it stores Secrets, without names: a plan says it before there is a key."""
        writer, *others = self.secrets
        if writer == IDENTITY:
            return "store Secrets unencrypted, and read encrypted ones" if others else "store Secrets unencrypted"
        newer = _behind_identity(self.secrets)
        older = set(others) - {IDENTITY, *newer}
        also = [f"read those of {what} key" for what, keys in (("a newer", newer), ("an older", older)) if keys]
        return " and ".join(("store Secrets encrypted", *also))

    def of(self, resource: str) -> Providers:
        """Those of a resource."""
        lists = dict(self.resources)
        group = resource.partition(".")[2]
        return lists.get(resource) or lists.get(f"*.{group}") or lists.get("*.*") or _PLAIN


PLAIN = Configuration()


@dataclass(frozen=True, slots=True)
class Encryption:
    """How one API server stores what it stores.

    `configuration` is that of the file which its flag names; without the flag it is plain. `spare` is that of a file which no flag names.
    """

    configuration: Configuration = PLAIN
    flagged: bool = False
    in_use: bool = True  # it was started after the file had come
    as_given: bool = True  # the file says what the manifest's own configuration says, where it has these providers
    spare: Configuration | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """What the manifest wants: `configuration`, or None for one key of our own making, first, and plain text readable beside it.

    `written` is the provider that every Secret is known to be stored with; empty where that is not known. `unasked` is why etcd cannot be asked which
    provider something is stored with; empty where it can.
    """

    configuration: Configuration | None = PLAIN
    written: str = ""
    unasked: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Give this host's API server this configuration, and have it use it."""

    host: str
    configuration: Configuration


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Write every Secret anew, which stores it with this provider."""

    provider: str


def next_change(hosts: Mapping[str, Encryption], desired: Desired, *, rotate: bool = False) -> Change | Rewrite | None:
    """What comes next for API servers that agree (`disagreement`), the first host first; None: they store as is desired, or there are none."""
    if not hosts:
        return None
    unused = next((name for name, each in hosts.items() if not each.in_use), None)
    if unused is not None:  # whichever of the two it runs with is one stage apart at most
        return Change(unused, hosts[unused].configuration)
    target = desired.configuration or _with_one_key(hosts, rotate=rotate)
    found = dict.fromkeys(each.configuration for each in hosts.values())
    for behind in found:
        following = _following(behind, target, desired.written)
        if len(found) == 1 and (following is None or isinstance(following, Rewrite)):
            return following or _tidied(hosts, target)
        if isinstance(following, Configuration) and found.keys() <= {behind, following}:
            return _first(hosts, following)
    return _first(hosts, _union(hosts.values(), target))  # the manifest became another one in the middle


def disagreement(hosts: Mapping[str, Encryption]) -> str:
    """Why these API servers cannot read each other's Secrets; empty where they can. Keys that differ under one name are such a reason."""
    for name, each in hosts.items():
        for resource in _resources(other.configuration for other in hosts.values()):
            writer = each.configuration.of(resource)[0]
            deaf = [other for other, found in hosts.items() if writer not in found.configuration.of(resource)]
            if deaf:
                return f"{name} stores {resource} {_with(writer)}, which {', '.join(deaf)} does not have"
    return namesakes(key for each in hosts.values() for part in (each.configuration, each.spare or PLAIN) for key in part.keys)


def label(provider: str) -> str:
    """A provider's kind and name, without what tells namesakes apart."""
    return ":".join(provider.split(":")[:2])


def unreadable(wanted: Configuration, found: Iterable[Configuration]) -> str:
    """A resource but Secrets that may be stored as plain text, and would not be read so any more: nobody could tell which. Empty where there is none."""
    there = tuple(found)
    names = (name for name in _resources((*there, wanted)) if name != SECRETS and IDENTITY not in wanted.of(name))
    return next((name for name in names if any(IDENTITY in each.of(name) for each in there)), "")


def _with(provider: str) -> str:
    return "as plain text" if provider == IDENTITY else f"with key {label(provider)}"


def namesakes(keys: Iterable[str]) -> str:
    """Why no API server could have these keys beside each other; empty where each could: keys that differ under one name."""
    seen: dict[str, str] = {}
    for key in sorted(set(keys)):
        if seen.setdefault(label(key), key) != key:
            return f"there are two different keys called {label(key)}"
    return ""


def _with_one_key(hosts: Mapping[str, Encryption], *, rotate: bool) -> Configuration:
    """One key that is there already, or else a new one: a key on its way in before the one that is used, that one before one in a file without use."""
    lists = [each.configuration.secrets for each in hosts.values()]
    incoming = [provider for providers in lists for provider in _behind_identity(providers)]
    used = [provider for providers in lists for provider in providers if provider != IDENTITY]
    spare = [provider for each in hosts.values() for provider in (each.spare or PLAIN).secrets if provider != IDENTITY]
    at_rest = used and not incoming and len(set(lists)) == len(set(used)) == 1
    key = NEW if rotate and at_rest else next(iter((*incoming, *used, *spare)), NEW)
    return Configuration.made({SECRETS: (key, IDENTITY)})


def _behind_identity(providers: Providers) -> Providers:
    """Keys that are read and not yet written with; the newest first. Those of old stand in front of `identity`."""
    if IDENTITY not in providers:
        return ()
    behind = providers[providers.index(IDENTITY) + 1 :]
    return behind if providers[0] == IDENTITY else behind[::-1]


def _following(found: Configuration, target: Configuration, written: str) -> Configuration | Rewrite | None:
    """The stage after this one. An API server that is alone goes through all of them, too: one that does not come up is given the stage before again, which
    has to read what it has written meanwhile."""
    resources = _resources((found, target))
    adding = {name: (*found.of(name), *_without(target.of(name), found.of(name))) for name in resources}
    if any(target.of(name)[0] not in found.of(name) for name in resources):
        return Configuration.made(adding)
    if any(target.of(name)[0] != found.of(name)[0] for name in resources):
        return Configuration.made(
            {name: (target.of(name)[0], *_without(found.of(name), target.of(name)), *target.of(name)[1:]) for name in resources}
        )
    if written != target.secrets[0] and (found, target) != (PLAIN, PLAIN):
        return Rewrite(target.secrets[0])
    return None if found == target else target


def _union(hosts: Iterable[Encryption], target: Configuration) -> Configuration:
    """Everything that anybody reads, written with what all read: from any mixture that agrees, each may go there by itself."""
    there = [each.configuration for each in hosts]
    made: dict[str, Providers] = {}
    for name in _resources((*there, target)):
        lists = [each.of(name) for each in there]
        preferred = target.of(name)[0]
        writer = preferred if all(preferred in providers for providers in lists) else lists[0][0]
        everything = dict.fromkeys(provider for providers in lists for provider in providers)
        made[name] = (writer, *(provider for provider in everything if provider != writer))
    return Configuration.made(made)


def _tidied(hosts: Mapping[str, Encryption], target: Configuration) -> Change | None:
    """All store as is desired: what is left over goes, and the manifest's own words take the place of ours."""
    for name, each in hosts.items():
        idle = target == PLAIN and (each.flagged or each.spare is not None)
        if idle or not each.as_given:
            return Change(name, target)
    return None


def _first(hosts: Mapping[str, Encryption], configuration: Configuration) -> Change:
    return Change(next(name for name, each in hosts.items() if each.configuration != configuration), configuration)


def _resources(configurations: Iterable[Configuration]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in configurations for name in (*each.names, SECRETS)))


def _without(providers: Providers, others: Providers) -> Iterator[str]:
    return (provider for provider in providers if provider not in others)
