"""`quorate kubeconfig`: the administrator's kubeconfig, from any control-plane host that can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.cli.failures import ExitCode, Failure
from quorate.cli.hosts_access import with_manifest

if TYPE_CHECKING:
    from quorate.cli.hosts_access import Place

PATH = "/etc/kubernetes/admin.conf"


@click.command(name="kubeconfig", context_settings={"help_option_names": ["-h", "--help"]})
@with_manifest()
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Print the administrator's kubeconfig. It holds a private key: keep the file to yourself (umask 077)."""
    from quorate.cli import event_loop, hosts_access, logs

    logs.quiet(debug=ctx.find_root().params["debug"])
    click.echo(event_loop.run(_read(hosts_access.place(flags))), nl=False)


async def _read(where: Place) -> bytes:
    """From the first host, in the manifest's order, that has one."""
    from quorate.cli.hosts_access import entered, load
    from quorate.hosts.ssh.errors import SshError

    loaded = await load(where)
    causes = []
    async with entered(loaded) as access:
        for name in access.control_planes:
            try:
                return await access.ssh(name).read_file(PATH)
            except SshError as error:
                causes.append(str(error))
    raise Failure(f"no control-plane host gave {PATH}: {'; '.join(causes)}", ExitCode.HOSTS)
