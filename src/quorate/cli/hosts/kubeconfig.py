"""`quorate kubeconfig`: the administrator's kubeconfig, from any control-plane host that can be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.cli.failures import ExitCode, Failure
from quorate.cli.hosts.access import with_manifest

if TYPE_CHECKING:
    from quorate.cli.hosts.access import Place
    from quorate.kubernetes.inline_kubeconfig import InlineKubeconfig

PATH = "/etc/kubernetes/admin.conf"


@click.command(name="kubeconfig", context_settings={"help_option_names": ["-h", "--help"]})
@with_manifest()
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Print the administrator's kubeconfig: server, CA, and the client's certificate and key, and nothing else that the host's file may say.

    It holds a private key: keep the file to yourself (umask 077).
    """
    from quorate.cli import event_loop, logs
    from quorate.cli.hosts import access

    logs.quiet(debug=ctx.find_root().params["debug"])
    click.echo(event_loop.run(_read(access.place(flags))), nl=False)


async def _read(where: Place) -> bytes:
    """From the first host, in the manifest's order, that has one of the cluster which can be used."""
    from quorate.cli.hosts.access import entered, load, of_one_cluster
    from quorate.hosts.connect.ssh.errors import SshError
    from quorate.hosts.observe.cluster_ca import fingerprints
    from quorate.kubernetes.config import ConfigError
    from quorate.kubernetes.inline_kubeconfig import read

    loaded = await load(where)
    causes = []
    async with entered(loaded) as access:
        ca = (await of_one_cluster(loaded, access)).ca
        for name in access.control_planes:
            try:
                found = read(await access.ssh(name).read_file(PATH), source=f"{PATH} of host {name}")
                if ca in fingerprints(found.ca):
                    return _written(found)
                causes.append(f"{PATH} of host {name} is another cluster's, by its CA")
            except (SshError, ConfigError) as error:
                causes.append(str(error))
    raise Failure(f"no control-plane host gave {PATH}: {'; '.join(causes)}", ExitCode.HOSTS)


def _written(found: InlineKubeconfig) -> bytes:
    """A kubeconfig of our own with what was found: whoever uses it runs no program and reads no file that a host named."""
    from quorate.core import documents
    from quorate.pki.kubeconfig import client_certificate, document

    credentials = {"token": found.token} if found.token else client_certificate(found.certificate, found.key)
    made = document(found.cluster, found.server, found.ca, user=found.user, credentials=credentials, context=found.context)
    return documents.dump(made).encode()
