"""The lines of scripts of which it is known what they do to a machine, by what runs in them and not by who sends them.

What is between them is the rest of a shell's work: it does nothing here. But what ends, starts or replaces anything there is an error of this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from quorate.hosts.act import kubeadm

_KNOWN = re.compile(
    r"^(?P<function>\w+\(\) [{(]\n(?:.*\n)*?[)}])$"
    r"|^(?P<place>printf %s '(?P<content>[^']*)' \| place (?P<path>\S+) .*)"
    r"|^(?P<remove>rm -f -- (?P<gone>.+))$"
    r"|^(?P<kubeadm>(?:timeout -k \d+ \d+|    if !|if !|\[ ! -e (?P<unless>\S+) \] \|\|) kubeadm (?P<arguments>.+?) (?:>|\\$).*)"
    r"|^(?P<replace>if ! (?:cmp -s -- |\[ \"\$\(sort )\S+/new/(?P<replaced>[a-z-]+)\.yaml.*; then\n(?P<replacing>(?:.*\n)*?)fi)$"
    r"|^(?P<refresh>if \[ ! -e \S+/(?P<refreshed>[a-z-]+)\.before \] && .*; then\n(?:.*\n)*?.*; then\n(?P<refreshing>(?:.*\n)*?) +break\n(?:.*\n)*?fi)$"
    r"|^(?P<note> *\( running=(?:.*\n)*? *\) >\S+\.containers)$"
    r"|^ *(?P<keep>mv -f -T -- \S+\.before\.new \S+/(?P<kept>[a-z-]+)\.before)$"
    r"|^ *(?P<take>mv -f -T -- \S+/new/(?P<taken>[a-z-]+)\.yaml \S+)$"
    r"|^(?P<put_back>mv -f -T -- \S+/(?P<old>[a-z-]+)\.before \S+)$"
    r"|^(?P<restarts_due>if \[ -s \S+/restarts-due \]; then\n(?:.*\n)*?fi)$"
    r"|^(?P<restart_kubelet>if ! cmp -s -- \S+ /run/quorate-kubelet-config\.yaml; then systemctl restart kubelet; fi)$"
    r"|^(?P<is>is (?P<checked>\S+) (?P<digests>\S+))$"
    r"|^(?P<stop_kubelet>systemctl stop kubelet)$"
    r"|^(?P<new_kubelet>systemctl restart kubelet)$"
    r"|^(?P<at_exit>trap 'systemctl restart kubelet' EXIT)$"
    r"|^(?P<end_others>for id in \$others; do ctr -n k8s\.io tasks kill --signal SIGTERM .*)$"
    r"|^(?P<untouched>for file in /etc/kubernetes/kubelet\.conf .*; do\n.*\n.*\n +exit (?P<belongs>\d+)\n.*\ndone)$"
    r"|^(?P<missing>missing (?P<program>\S+) .+)$"
    r"|^(?P<want>want (?P<package>[a-z]+) (?P<version>\S+))$"
    r"|^(?P<finish>finish)$"
    r"|^(?P<enable>systemctl is-enabled --quiet containerd \|\| systemctl enable --now --quiet containerd)$"
    r"|^(?P<set_up>if ! systemctl is-active --quiet containerd; then\n(?:.*\n)*?fi)$"
    r"|^(?P<watch>\(\n    exec 9>&- (?:.*\n)*?\) &\nwatching=\$!)$"
    r"|^(?P<leftovers>rm -rf -- kubeadm-upgraded-manifests\*)$"
    r"|^(?P<start>systemctl start (?P<units>.+?) \|\| :)$"
    rf"|^(?P<lock>flock -w {kubeadm.TIMEOUT} 9)$"
    r"""|(?P<each>containers ls -q '(?P<chosen>[^']+)'\); do\n *case "\$running" in \*" \$id "\*\) (?P<command>.+?) ;; esac)"""
    r"|^(?P<until_refused>until refuses \d+ \|\| .*)"
    r"""|^(?P<once_quiet>while \[ "\$looks" -lt \d+ \] && (?P<while>any_runs|:); do\n.*\n.*\n +for id in (?P<ids>[^;]*); do ctr .*)""",
    re.MULTILINE,
)
_MUST_BE_KNOWN = re.compile(
    r"\bkubeadm (?:init|join|reset|upgrade|certs|token)\b|\btasks kill\b|^ *mv .*/etc/kubernetes/"
    r"|\bsystemctl (?!enable --quiet|reset-failed|daemon-reload|is-|show)",
    re.MULTILINE,
)


def known(script: str) -> Iterator[re.Match[str]]:
    """The known parts in their order; the name of the last group of each says what it is. Raises AssertionError where it comes to what has to be known."""
    end = 0
    for part in _KNOWN.finditer(script):
        _check(script, end, part.start())
        yield part
        end = part.end()
    if not end:
        raise AssertionError(f"nothing is known of this script:\n{script[:2000]}")
    _check(script, end, len(script))


def _check(script: str, start: int, end: int) -> None:
    if unknown := _MUST_BE_KNOWN.search(script, start, end):
        raise AssertionError(f"it is not known what this does: {script[unknown.start() :].splitlines()[0]}")
