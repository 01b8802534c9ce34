"""containerd's own configuration and where it gets each registry's images from. Pure.

Source: containerd's docs/cri/config.md and docs/hosts.md. Version 1 of containerd reads version 2 of the configuration, version 2 reads version 3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from quorate.hosts.manifest import Manifest
from quorate.hosts.manifest.component_fields import Containerd, Registry, RegistryAuth
from quorate.hosts.render.host_files import HostFile
from quorate.hosts.render.shell import quoted

CONFIGURATION = "/etc/containerd/config.toml"
REGISTRIES = "/etc/containerd/certs.d"
DEFAULT_REGISTRY = "registry.k8s.io"
MARK = "# Written by quorate; changes are overwritten."

_RUNTIME = {1: "io.containerd.grpc.v1.cri", 2: "io.containerd.cri.v1.runtime"}
_IMAGES = {1: "io.containerd.grpc.v1.cri", 2: "io.containerd.cri.v1.images"}
_ALL_OTHERS = "*"
_DOCKER_HUB = {"docker.io": "registry-1.docker.io"}  # the name in images, and the host that serves them


def containerd_files(manifest: Manifest, major: int) -> tuple[HostFile, ...]:
    """The files that containerd `major` (1 or 2) is to have. The first may hold passwords of registries: mode 0600. A change of it needs a restart, one of the
    registries does not.
    """
    containerd = manifest.container_runtime.containerd
    registries = {name: registry for name, registry in sorted(containerd.registries.items()) if registry.mirrors or registry.tls_config}
    files = [HostFile(CONFIGURATION, _configuration(manifest, major).encode())]
    for name, registry in registries.items():
        files.append(HostFile(f"{_folder(name)}/hosts.toml", _hosts(name, registry).encode(), mode=0o644))
    insecure = manifest.registry_configuration
    host = insecure.overwrite_registry.partition("/")[0]
    if insecure.insecure_registry and host and host not in registries:
        files.append(HostFile(f"{_folder(host)}/hosts.toml", _insecure(host).encode(), mode=0o644))
    return tuple(files)


def removing_stale_registries(files: Iterable[HostFile]) -> str:
    """A script that removes what quorate once wrote for a registry that is not in `files` any more, and says so. Files of others stay. Idempotent."""
    return _stale(files, """rm -f -- "$file"; printf 'removed %s\\n' "$file\"""")


def stale_registries(files: Iterable[HostFile]) -> str:
    """A script that prints the paths of those, one a line, and changes nothing."""
    return _stale(files, """printf '%s\\n' "$file\"""")


def _stale(files: Iterable[HostFile], command: str) -> str:
    kept = "|".join(quoted(file.path) for file in files) or "''"
    return _STALE.format(kept=kept, pattern=f"{REGISTRIES}/*/hosts.toml", mark=quoted(MARK), command=command)


def sandbox_image(manifest: Manifest) -> str:
    """The image of a Pod's pause container, as kubeadm of this version would have it, from the registry that the manifest names for all images."""
    if named := manifest.container_runtime.containerd.sandbox_image:
        return named
    release = "3.10.2" if manifest.version.release >= (1, 36, 0) else "3.10.1"
    return f"{manifest.registry_configuration.overwrite_registry or DEFAULT_REGISTRY}/pause:{release}"


def _configuration(manifest: Manifest, major: int) -> str:
    runtime, images = (f"plugins.{_text(names[major])}" for names in (_RUNTIME, _IMAGES))
    containerd = manifest.container_runtime.containerd
    lines = [
        MARK,
        f"version = {major + 1}",
        'imports = ["/etc/containerd/conf.d/*.toml"]  # settings of your own: quorate leaves that folder alone',
        "",
        f"[{runtime}]",
        f"device_ownership_from_security_context = {json.dumps(containerd.device_ownership_from_security_context)}",
        *((f"sandbox_image = {_text(sandbox_image(manifest))}",) if major == 1 else ()),
        f"[{runtime}.containerd.runtimes.runc]",
        'runtime_type = "io.containerd.runc.v2"',
        f"[{runtime}.containerd.runtimes.runc.options]",
        "SystemdCgroup = true",
        *((f"[{images}.pinned_images]", f"sandbox = {_text(sandbox_image(manifest))}") if major == 2 else ()),
        f"[{images}.registry]",
        f"config_path = {_text(REGISTRIES)}",
        *_logins(images, containerd),
    ]
    return "\n".join((*lines, ""))


def _logins(images: str, containerd: Containerd) -> Iterator[str]:
    for name, registry in sorted(containerd.registries.items()):
        if registry.auth is not None:
            yield f"[{images}.registry.configs.{_text(_DOCKER_HUB.get(name, name))}.auth]"
            yield from (f"{key} = {_text(value)}" for key, value in _login(registry.auth).items() if value)


def _login(auth: RegistryAuth) -> Mapping[str, str]:
    return {
        "username": auth.username,
        "password": auth.password.reveal(),
        "auth": auth.auth.reveal(),
        "identitytoken": auth.identity_token.reveal(),
    }


def _folder(registry: str) -> str:
    return f"{REGISTRIES}/{'_default' if registry == _ALL_OTHERS else registry}"


def _hosts(name: str, registry: Registry) -> str:
    """Mirrors are tried in their order, then the registry itself; without mirrors the settings are for the registry."""
    server = f"https://{_DOCKER_HUB.get(name, name)}"
    lines = [MARK, *(() if name == _ALL_OTHERS else (f"server = {_text(server)}",))]
    skip_verify = registry.tls_config is not None and registry.tls_config.insecure_skip_verify
    for mirror in registry.mirrors or (() if name == _ALL_OTHERS else (server,)):
        address = mirror if "://" in mirror else f"https://{mirror}"
        lines += [f"[host.{_text(address)}]", 'capabilities = ["pull", "resolve"]']
        lines += ["skip_verify = true"] if skip_verify else []
        lines += ["override_path = true"] if registry.override_path and registry.mirrors else []
    return "\n".join((*lines, ""))


def _insecure(host: str) -> str:
    """First TLS with any certificate, then none at all."""
    lines = [MARK, f"server = {_text(f'https://{host}')}"]
    lines += [f"[host.{_text(f'https://{host}')}]", 'capabilities = ["pull", "resolve"]', "skip_verify = true"]
    lines += [f"[host.{_text(f'http://{host}')}]", 'capabilities = ["pull", "resolve"]']
    return "\n".join((*lines, ""))


def _text(value: str) -> str:
    """A TOML string: JSON's escapes are TOML's too, apart from DEL, which nothing here may hold."""
    return json.dumps(value, ensure_ascii=False)


_STALE = """\
for file in {pattern}; do
    [ -f "$file" ] || continue
    case "$file" in {kept}) continue ;; esac
    if [ "$(head -n 1 -- "$file")" = {mark} ]; then {command}; fi
done
"""
