"""Makes a new serving certificate for a host's API server if the present one lacks a name of the manifest.

kubeadm makes it in a folder beside, and only what it has finished takes the old one's place: on a disk that is full, or after a cut, the API server starts
again with the certificate that it had.
"""

from __future__ import annotations

from quorate.hosts.act import kubeadm
from quorate.hosts.act.keys import PKI
from quorate.hosts.act.placing import placing
from quorate.hosts.act.tools import Tools
from quorate.hosts.connect.ssh.errors import NoSuchFile
from quorate.hosts.render.host_files import HostFile, yaml_documents
from quorate.hosts.render.kubeadm_configuration import Machine, certificate_names
from quorate.kubeadm.cluster_configuration import Document
from quorate.pki.certificates import comparable, read_certificates
from quorate.pki.keys import PkiError

CONFIGURATION = "/etc/kubernetes/quorate/certificate.yaml"
FOLDER = "/etc/kubernetes/tmp/quorate/pki"
"""On the file system of the certificates, so that one takes another's place in one act."""
_CERTIFICATE = f"{PKI}/apiserver.crt"


async def ensure_names(tools: Tools, machine: Machine, own: Document, cluster: Document) -> None:
    """Make the certificate anew where it lacks a name; the API server reads it again while it runs. Idempotent. Raises StepFailed and SshErrors.

    `own` and `cluster` are kubeadm's InitConfiguration of the host and ClusterConfiguration.
    """
    try:
        found = read_certificates(await tools.access.ssh(machine.name).read_file(_CERTIFICATE))[0].names
    except (NoSuchFile, PkiError):  # somebody took it away, or what is there is no certificate
        found = frozenset()
    missing = sorted(set(map(comparable, certificate_names(tools.manifest))) - found)
    if missing:
        tools.report(machine.name, f"making the API server's certificate with {', '.join(missing)}")
        file = HostFile(CONFIGURATION, yaml_documents(own, {**cluster, "certificatesDir": FOLDER}))
        command = kubeadm.Command(
            f"init phase certs apiserver --config {CONFIGURATION}",
            "making the API server's certificate",
            before=f"{placing([file])}\n{_BESIDE}",
            then=_TAKE_PLACE,
        )
        await kubeadm.run(tools, machine.name, command)


_BESIDE = f"""\
rm -rf -- {FOLDER}
mkdir -p {FOLDER}
ln -s {PKI}/ca.crt {PKI}/ca.key {FOLDER}/
"""
# The certificate comes last: cut between the two, it still lacks the name, and both are made again.
_TAKE_PLACE = f"""\
sync -- {FOLDER}/apiserver.key {FOLDER}/apiserver.crt
for file in apiserver.key apiserver.crt; do mv -f -T -- {FOLDER}/$file {PKI}/$file; done
rm -rf -- {FOLDER}
"""
