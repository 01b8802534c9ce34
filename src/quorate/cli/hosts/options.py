"""What an operator may ask for beside the manifest: the flags that `plan -m` and `apply` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from quorate.core.hosts.state import RunOptions

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def with_options(command: _Decorated) -> _Decorated:
    """The flags that `options` is made from."""
    options = (
        click.option("--no-init", is_flag=True, help="Existing hosts: prepare them only; stop before kubeadm runs."),
        click.option(
            "--force-upgrade",
            is_flag=True,
            help="Existing hosts: upgrade even if versions are equal. Quorum and version-skew checks still apply.",
        ),
        click.option(
            "--rotate-encryption-key", is_flag=True, help="Existing hosts: re-encrypt all Secrets with a new key, then remove the old key."
        ),
        click.option(
            "--without",
            multiple=True,
            metavar="HOST",
            help="Existing hosts: you vouch that HOST, which is unreachable, holds no cluster and nobody works on it. Repeatable.",
        ),
        click.option(
            "--keep-firewall",
            is_flag=True,
            help="Existing hosts: leave firewalls and SELinux on. The plan says which ports must be open.",
        ),
        click.option(
            "--parallel-workers",
            type=click.IntRange(1),
            default=10,
            show_default=True,
            help="Existing hosts: how many workers may join at once.",
        ),
        click.option(
            "--remove-hosts",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            metavar="N",
            help="Existing hosts: how many hosts that are no longer in the manifest may be removed from the cluster.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def options(flags: Mapping[str, Any], *, renew_certificates: bool = False) -> RunOptions:
    """From the values of those flags."""
    from quorate.core.hosts.state import RunOptions

    return RunOptions(
        initialize=not flags["no_init"],
        force_upgrade=flags["force_upgrade"],
        renew_certificates=renew_certificates,
        rotate_encryption_key=flags["rotate_encryption_key"],
        without=tuple(flags["without"]),
        parallel_workers=flags["parallel_workers"],
        remove_hosts=flags["remove_hosts"],
        keep_firewall=flags["keep_firewall"],
    )
