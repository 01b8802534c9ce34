"""What scripts print that change nothing on a simulated machine."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from quorate.hosts.act import kubeadm
from quorate.hosts.act.settled import KUBELET_ANSWERS
from quorate.hosts.probe import probe
from quorate.simulation.hosts import material
from quorate.simulation.hosts.facts import CONTAINERD, probed
from quorate.simulation.hosts.machines import Machine
from quorate.simulation.hosts.manifests import told_before
from quorate.simulation.hosts.material import PKI
from quorate.simulation.hosts.reach import Reach
from quorate.simulation.hosts.scripts import Refused
from quorate.simulation.hosts.static_pods import Containers

_UNIT = re.compile(r"'?(kubelet|containerd)\.service'?")
_LISTING = re.compile(r"""containers ls -q '([^']+)'\); do\n *case "\$running" in \*" \$id "\*\) echo "\$id" ;; esac\ndone\n$""")


def looked(reach: Reach, machine: Machine, script: str) -> bytes:
    """What a script prints. Raises Refused where it fails."""
    site, disk = reach.site, machine.disk
    if f"-- {kubeadm.LOG}" in script:
        return b""
    if script.endswith(probe.script()):
        return probed(site, machine)
    if "base64 -w 0" in script:
        return _cas(machine)
    if "ActiveState,SubState" in script:
        runs = {"kubelet": machine.kubelet_runs, "containerd": machine.containerd_runs}
        return "".join(f"{unit}.service is inactive dead\n" for unit in _UNIT.findall(script) if not runs[unit]).encode()
    if script == "containerd --version":
        return _containerd_version(machine)
    if script.startswith(". /etc/os-release\n"):
        return b"trixie"
    if script == KUBELET_ANSWERS:
        return _kubelet_answers(machine)
    if script.endswith("; echo changed; fi"):
        return told_before(machine, script).encode()
    if listing := _LISTING.search(script):
        return Containers(site, machine, reach.tells).listed(listing[1]).encode()
    raise AssertionError(f"nothing is known of this script, with {disk}:\n{script}")


def _cas(machine: Machine) -> bytes:
    if not machine.disk.ca or not machine.disk.admin_conf:
        raise Refused(f"{PKI}ca.key is missing or empty", 44)
    files: Mapping[str, bytes] = material.cas(machine.disk.ca)
    return b"".join(b"%b %b\n" % (name.encode(), base64.b64encode(content)) for name, content in files.items())


def _containerd_version(machine: Machine) -> bytes:
    if not machine.disk.containerd:
        raise Refused("sh: containerd: not found", 127)
    return f"containerd github.com/containerd/containerd {CONTAINERD}".encode()


def _kubelet_answers(machine: Machine) -> bytes:
    if not (machine.kubelet_runs and machine.disk.kubelet_configuration):
        raise Refused("curl: (7) Failed to connect", 7)
    return b""
