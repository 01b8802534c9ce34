"""What changed in the Corefile from one CoreDNS version to the next, and a Corefile carried from one version to another. Pure.

Facts: CoreDNS' release notes, as github.com/coredns/corefile-migration v1.0.34 knows them. As there, and as Cluster API uses it, what is merely deprecated
stays as it is; what a version ignores or refuses is taken away, and what its default Corefile gained is added. From 1.8.3 on nothing has changed but that
options were added, so that a Corefile is left as it is, to the letter. Where this differs from that library, on purpose: comments, quotes and nested blocks
survive; proxy's `policy least_conn` becomes forward's default policy (not TCP), `policy first` becomes `sequential`, and `protocol dns force_tcp` becomes
`force_tcp`; every stub domain of a server block gets its own; a transfer covers all zones of its kubernetes plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from quorate.core.text import printable
from quorate.workload.corefile import Corefile, CorefileError, Line, parse, render
from quorate.workload.updates import CannotUpdate

# 1.8.1 and 1.8.2 were never released as images, nor were 1.11.2, 1.6.8 and 1.14.5.
VERSIONS = (
    *(
        "1.1.3",
        "1.1.4",
        "1.2.0",
        "1.2.1",
        "1.2.2",
        "1.2.3",
        "1.2.4",
        "1.2.5",
        "1.2.6",
        "1.3.0",
        "1.3.1",
        "1.4.0",
        "1.5.0",
        "1.5.1",
        "1.5.2",
    ),
    *(
        "1.6.0",
        "1.6.1",
        "1.6.2",
        "1.6.3",
        "1.6.4",
        "1.6.5",
        "1.6.6",
        "1.6.7",
        "1.6.9",
        "1.7.0",
        "1.7.1",
        "1.8.0",
        "1.8.3",
        "1.8.4",
        "1.8.5",
    ),
    *("1.8.6", "1.8.7", "1.9.0", "1.9.1", "1.9.2", "1.9.3", "1.9.4", "1.10.0", "1.10.1", "1.11.0", "1.11.1", "1.11.3", "1.11.4"),
    *(
        "1.12.0",
        "1.12.1",
        "1.12.2",
        "1.12.3",
        "1.12.4",
        "1.13.0",
        "1.13.1",
        "1.13.2",
        "1.14.0",
        "1.14.1",
        "1.14.2",
        "1.14.3",
        "1.14.4",
        "1.14.6",
    ),
)
"""Every version that Corefiles can be carried from and to, oldest first."""

Triple = tuple[int, int, int]
Rule = Callable[[Corefile], Corefile]

_TAG = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?:[-+_].*)?", re.DOTALL)


def parse_tag(tag: str) -> Triple:
    """The version that an image tag such as v1.11.3, 1.12 or v1.11.3-eksbuild.1 names, without whatever follows the numbers. Raises CannotUpdate."""
    match = _TAG.fullmatch(tag)
    if match is None:
        raise CannotUpdate(f"the CoreDNS image tag {tag!r} is no version: use one such as v1.12.1")
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)


def check(current: str, target: str) -> None:
    """Raises CannotUpdate unless CoreDNS can go from one image tag to the other: both are known, and it is no step back."""
    source, destination = parse_tag(current), parse_tag(target)
    if destination < source:
        raise CannotUpdate(f"CoreDNS cannot go back from {current} to {target}: set dns.imageTag to {current} or a later version")
    for tag, triple in ((current, source), (target, destination)):
        if _text(triple) not in VERSIONS and (tag == current or destination != source):
            raise CannotUpdate(
                f"CoreDNS {tag} is not a version whose Corefile can be migrated (known are {VERSIONS[0]} to {VERSIONS[-1]}): "
                "migrate it by hand, and set the annotation controlplane.cluster.x-k8s.io/skip-coredns"
            )


def migrate(corefile: str, current: str, target: str) -> str:
    """The Corefile as the version of tag `target` needs it; the very same text where nothing has to change. Raises CannotUpdate."""
    check(current, target)
    source, destination = parse_tag(current), parse_tag(target)
    try:
        before = tree = parse(corefile)
    except CorefileError as error:
        raise CannotUpdate(
            f"the Corefile in ConfigMap kube-system/coredns cannot be read: {error}; correct it, or migrate it by hand and set the annotation "
            "controlplane.cluster.x-k8s.io/skip-coredns"
        ) from error
    for version in (parse_tag(text) for text in VERSIONS):
        if source < version <= destination:
            for since, until, rule in RULES:
                if since <= version and (until is None or version <= until):
                    tree = rule(tree)
    return corefile if tree == before else render(tree)


def _text(version: Triple) -> str:
    return ".".join(map(str, version))


def _plugins(change: Callable[[Line], Line | None]) -> Rule:
    """The rule that changes each plugin by itself, or takes it away."""

    def rule(corefile: Corefile) -> Corefile:
        return tuple(
            server if server.block is None else replace(server, block=tuple(p for p in map(change, server.block) if p is not None))
            for server in corefile
        )

    return rule


def _options(plugin: str, option: str, change: Callable[[Line], Line | None]) -> Rule:
    """The rule that changes each option of this name of a plugin, or takes it away."""

    def of_plugin(line: Line) -> Line:
        if line.name != plugin or not line.options(option):
            return line
        changed = tuple(c for o in line.block or () if (c := change(o) if o.name == option else o) is not None)
        return replace(line, block=changed or None)

    return _plugins(of_plugin)


def _without_option(plugin: str, option: str) -> Rule:
    return _options(plugin, option, lambda _: None)


def _with_option(plugin: str, *words: str) -> Rule:
    """The rule that gives a plugin an option, unless it has one of that name."""

    def of_plugin(line: Line) -> Line:
        if line.name != plugin or line.options(words[0]):
            return line
        return replace(line, block=(*(line.block or ()), Line(words)))

    return _plugins(of_plugin)


def _with_plugin(plugin: str, *, beside: Collection[str]) -> Rule:
    """The rule that gives a plugin to every server block that has one of the others and not this one."""

    def of_server(server: Line) -> Line:
        names = {line.name for line in server.block or ()}
        if server.block is None or plugin in names or names.isdisjoint(beside):
            return server
        return replace(server, block=(*server.block, Line((plugin,))))

    return lambda corefile: tuple(map(of_server, corefile))


def _first_argument_alone(option: Line) -> Line:
    return replace(option, words=option.words[:2])


def _unless_over_https(option: Line) -> Line | None:
    return None if option.arguments[:1] == ("https_google",) else option


_POLICIES = {"first": "sequential", "random": "random", "round_robin": "round_robin"}


def _proxy_to_forward(line: Line) -> Line:
    """The plugin `forward` in place of `proxy`, with the options that both have."""
    if line.name != "proxy":
        return line
    kept = tuple(new for option in line.block or () if (new := _forward_option(option)) is not None)
    return replace(line, words=("forward", *line.words[1:]), block=kept or None)


def _forward_option(option: Line) -> Line | None:
    match option.name:
        case "fail_timeout" | "max_fails" | "health_check" | "spray":
            return None
        case "policy":
            policy = _POLICIES.get(next(iter(option.arguments), ""))
            return replace(option, words=("policy", policy)) if policy else None
        case "protocol":
            return replace(option, words=("force_tcp",)) if "force_tcp" in option.arguments else None
    return option


def _stub_domains_apart(corefile: Corefile) -> Corefile:
    """Each `forward` of a zone of its own in a server block of its own: since 1.4.0 a block may have only one."""
    kept: list[Line] = []
    apart: list[Line] = []
    for server in corefile:
        stubs = [line for line in server.block or () if _is_stub(line)]
        if server.block is None or not stubs:
            kept.append(server)
            continue
        if server.words not in ((".",), (".:53",)):
            raise CannotUpdate(
                f"the Corefile's server block {_named(server.words)} forwards the zone {_named(stubs[0].arguments[:1])}, which must have "
                "a server block of its own: write that block in ConfigMap kube-system/coredns"
            )
        kept.append(replace(server, block=tuple(line for line in server.block if not _is_stub(line))))
        apart += map(_server_of, stubs)
    return (*kept, *apart)


def _is_stub(line: Line) -> bool:
    return line.name == "forward" and line.arguments[:1] != (".",)


def _named(words: Sequence[str]) -> str:
    return repr(printable(" ".join(words), most=253))


def _server_of(stub: Line) -> Line:
    if len(stub.words) < 2:
        raise CannotUpdate("the Corefile has a `forward` without a zone: write one in ConfigMap kube-system/coredns")
    forward = replace(stub, words=("forward", ".", *stub.words[2:]))
    return Line((stub.words[1],), block=(forward, Line(("loop",)), Line(("errors",)), Line(("cache", "30"))))


def _transfers_apart(corefile: Corefile) -> Corefile:
    """The plugin `transfer` in place of the kubernetes option of that name."""

    def of_server(server: Line) -> Line:
        added = []
        for plugin in server.block or ():
            targets = [word for option in plugin.options("transfer") for word in option.words[2:]] if plugin.name == "kubernetes" else []
            if targets:
                added.append(Line(("transfer", *plugin.words[1:]), block=(Line(("to", *targets)),)))
        return replace(server, block=(*(server.block or ()), *added)) if added else server

    return tuple(map(of_server, corefile))


RULES: tuple[tuple[Triple, Triple | None, Rule], ...] = (
    ((1, 1, 4), (1, 3, 1), _options("proxy", "protocol", _unless_over_https)),  # ignored, then refused
    ((1, 2, 1), (1, 2, 1), _with_plugin("loop", beside=("forward", "proxy"))),
    ((1, 4, 0), None, _options("kubernetes", "endpoint", _first_argument_alone)),  # further ones are ignored
    ((1, 5, 0), (1, 5, 0), _plugins(_proxy_to_forward)),  # proxy is gone
    ((1, 5, 0), (1, 5, 0), _with_plugin("ready", beside=("kubernetes",))),
    ((1, 4, 0), (1, 5, 0), _stub_domains_apart),  # after proxy has become forward
    ((1, 5, 0), (1, 7, 1), _without_option("kubernetes", "upstream")),  # ignored, from 1.7.0 refused
    ((1, 6, 0), (1, 7, 1), _without_option("kubernetes", "resyncperiod")),  # ignored, from 1.7.0 refused
    ((1, 6, 5), (1, 6, 5), _with_option("health", "lameduck", "5s")),
    ((1, 7, 0), (1, 7, 0), _with_option("forward", "max_concurrent", "1000")),
    ((1, 8, 0), (1, 8, 0), _transfers_apart),
    ((1, 8, 0), (1, 8, 0), _without_option("kubernetes", "transfer")),  # refused
)
"""From which version to which one (both included; None: all that follow) each change is made, in the order of one version's changes."""
