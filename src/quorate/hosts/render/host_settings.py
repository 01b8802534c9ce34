"""What a host gets before kubeadm and keeps as long as it is in the cluster: files, and how they take effect. Pure: files and sh.

Containers run on while containerd is restarted. What a change has yet to restart is noted on the host before the change: whoever is cut short, or comes next,
finds it there. Mirrors of registries need no restart, which containerd reads at every pull.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.versions import Version
from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.host_fields import OperatingSystem
from quorate.hosts.render.containerd_configuration import CONFIGURATION, containerd_files, removing_stale_registries, stale_registries
from quorate.hosts.render.flatcar import unit_files
from quorate.hosts.render.host_files import HostFile, differing
from quorate.hosts.render.prerequisites import PROXY_ENVIRONMENT, kernel, prerequisite_files, proxy_paths, trust
from quorate.hosts.render.shell import quoted

RESTARTS_DUE = "/etc/quorate/restarts-due"
"""Names what a change of settings has yet to restart, one a line; gone when the host was seen to be well again."""
CONTAINERD = "containerd"
"""containerd and the kubelet, which both read their environment when they start."""
TRUST = "trust"
"""What trusts the host's CAs: components of the control plane too."""


def settings_files(manifest: Manifest, system: OperatingSystem, containerd: Version | None) -> tuple[HostFile, ...]:
    """The files; none for a system that is not known, and none of containerd's where its version is not."""
    if system is OperatingSystem.UNKNOWN:
        return ()
    own = containerd_files(manifest, min(max(containerd.major, 1), 2)) if containerd else ()
    return (*prerequisite_files(manifest, system), *(unit_files() if system is OperatingSystem.FLATCAR else ()), *own)


def left_out(manifest: Manifest, system: OperatingSystem) -> tuple[str, ...]:
    """The paths of files for what the manifest asks for no longer."""
    if system is OperatingSystem.UNKNOWN:
        return ()
    wanted = {file.path for file in prerequisite_files(manifest, system)}
    return tuple(path for path in (trust(system)[0], *proxy_paths()) if path not in wanted)


def looking_for_stale(manifest: Manifest, system: OperatingSystem, files: Iterable[HostFile]) -> str:
    """A script that prints, one a line, the files that are there for what the manifest asks for no longer, and that of restarts that are due."""
    paths = (*left_out(manifest, system), RESTARTS_DUE)
    looks = (f"if [ -e {quoted(path)} ]; then echo {quoted(path)}; fi" for path in paths)
    return "\n".join((*looks, stale_registries(files), ""))


def bringing(manifest: Manifest, system: OperatingSystem, files: tuple[HostFile, ...], placing: str) -> str:
    """A script that gives a host these files (`placing` is the part that does), takes away what is asked for no longer, and puts all of it into effect.

    Prints `due WHAT` for each of CONTAINERD and TRUST whose restart is due: it has restarted containerd and the kubelet, and left the rest, and the removal of
    RESTARTS_DUE, to who calls it. Idempotent: where nothing differs and nothing is due, nothing is restarted.
    """
    path, command = trust(system)
    return _BRINGING.format(
        due=RESTARTS_DUE,
        differing=differing(files),
        left_out=" ".join(map(quoted, left_out(manifest, system))),
        configuration=CONFIGURATION,
        environment=PROXY_ENVIRONMENT,
        trust=path,
        trusting=command,
        placing=placing,
        stale=removing_stale_registries(files),
        kernel=kernel(manifest),
    )


_BRINGING = """\
is_due() {{
    grep -qsx -e "$1" {due} && return 0
    mkdir -p /etc/quorate
    echo "$1" >>{due}
}}
note() {{
    case "$1" in
        {configuration} | {environment} | /etc/systemd/system/*) is_due containerd ;;
        {trust})
            is_due containerd
            is_due trust
            ;;
    esac
}}
differing=$(
{differing}
)
for file in $differing; do note "$file"; done
for file in {left_out}; do
    [ -e "$file" ] || continue
    note "$file"
    rm -f -- "$file"
    printf 'removed %s\\n' "$file"
done
{placing}
{stale}
{kernel}
if [ -s {due} ]; then
    if grep -qsx trust {due}; then {trusting}; fi
    systemctl daemon-reload
    systemctl restart containerd
    systemctl restart kubelet
    sed 's/^/due /' {due}
fi
"""
