"""`quorate manager`: the provider's process, under the flags of the one it takes the place of.

Source: cluster-api v1.14, controlplane/kubeadm/main.go, for names and defaults. Flags of upstream without a meaning here are accepted with a warning where
ignoring them does no harm, so that its Deployment can be pointed at this image; flags that would weaken something if ignored are refused.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.durations import Duration
from quorate.clusterapi.types.names import LEADER_ELECTION_LEASE
from quorate.clusterapi.types.schema import DNS_SUBDOMAIN, LABEL_VALUE

if TYPE_CHECKING:
    from quorate.clusterapi.manager import Options
    from quorate.clusterapi.webhooks.process import WebhookProcess

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

FEATURE_GATES = {
    "ClusterTopology": "",
    "InPlaceUpdates": "machines are not updated in place by this release",
    "KubeadmBootstrapFormatIgnition": "",
    "MachinePool": "",
    "MachineSetPreflightChecks": "",
    "MachineTaintPropagation": "",
    "MachineWaitForVolumeDetachConsiderVolumeAttachments": "",
    "PriorityQueue": "",
    "ReconcilerRateLimiting": "",
    "RuntimeSDK": "",
}
"""Upstream's gates, and what is missing here when one is on ("" where nothing is: the behaviour does not depend on it)."""

IGNORED_FLAGS = {
    "clustercache-concurrency": "each workload cluster has its own connection",
    "contention-profiling": "there is no profiler",
    "etcd-call-timeout-duration": "each call has its own deadline",
    "etcd-client-log-level": "the etcd client logs with everything else",
    "etcd-dial-timeout-duration": "each call has its own deadline",
    "log-flush-frequency": "logs are written at once",
    "profiler-address": "there is no profiler",
    "runtime-extension-client-cert-file": "no runtime extension is called",
    "runtime-extension-client-key-file": "no runtime extension is called",
    "skip-crd-migration-phases": "no stored object needs migrating",
    "sync-period": "watches are checked for silence instead",
    "vmodule": "set --v for all modules",
}
"""Flags of upstream that change nothing here, and why."""

_IGNORED = "quorate.ignored"
_LEAST_GRACE_PERIOD = 120.0  # seconds; below it a restart of one API server would look like the end of the cluster
_DEBUG_VERBOSITY = 4  # klog's convention for debugging output


def _remember_ignored(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta.setdefault(_IGNORED, []).append(param.opts[0])


def _ignored_flags(command: _Decorated) -> _Decorated:
    for name in sorted(IGNORED_FLAGS, reverse=True):
        flag = click.option(f"--{name}", hidden=True, expose_value=False, callback=_remember_ignored, is_flag=False, flag_value="true")
        command = flag(command)
    return command


def _switch(name: str, text: str) -> Callable[[_Decorated], _Decorated]:
    """A flag that Go programs accept as `--name` and as `--name=false`."""
    return click.option(name, is_flag=False, flag_value="true", type=bool, default=False, metavar="[=true|false]", help=text)


def _seconds(name: str, default: float, text: str) -> Callable[[_Decorated], _Decorated]:
    return click.option(name, type=Duration(), default=default, show_default=f"{default:g}s", help=text)


def _gates(_ctx: click.Context, param: click.Parameter, value: str) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    for part in filter(None, value.split(",")):
        name, _, setting = part.partition("=")
        if name not in FEATURE_GATES:
            raise click.BadParameter(f"{name!r} is not a feature gate; there are: {', '.join(FEATURE_GATES)}", param=param)
        if setting.lower() not in ("true", "false"):
            raise click.BadParameter(f"{name} has to be true or false, and is {setting!r}", param=param)
        gates[name] = setting.lower() == "true"
    return gates


def _written_as(pattern: str, longest: int, what: str) -> Callable[[click.Context, click.Parameter, str], str]:
    """What lets a flag's value pass if it is of this form, and of no more characters."""

    def checked(_ctx: click.Context, param: click.Parameter, value: str) -> str:
        if len(value) > longest or not re.fullmatch(pattern, value):
            raise click.BadParameter(f"must be {what}, and is {value!r}", param=param)
        return value

    return checked


def _grace_period(_ctx: click.Context, param: click.Parameter, value: float) -> float:
    if value < _LEAST_GRACE_PERIOD:
        raise click.BadParameter(f"must be at least {_LEAST_GRACE_PERIOD:g}s, and is {value:g}s", param=param)
    return value


@click.command(
    name="manager", context_settings={"token_normalize_func": lambda name: name.replace("_", "-"), "help_option_names": ["-h", "--help"]}
)
@click.option(
    "--kubeconfig", metavar="FILE", help="The management cluster; without it KUBECONFIG, ~/.kube/config, or the Pod's service account."
)
@click.option("--context", help="The context of the kubeconfig to use, instead of its current one.")
@click.option("--namespace", default="", help="The only namespace to work in; all of them where it is not given.")
@click.option(
    "--watch-filter",
    default="",
    callback=_written_as(LABEL_VALUE, 63, "the value of a label"),
    help="Work only on control planes whose label cluster.x-k8s.io/watch-filter has this value.",
)
@click.option(
    "--etcd-dialer",
    type=click.Choice(["port-forward", "in-memory"]),
    default="port-forward",
    show_default=True,
    help="The way to the workload clusters' etcd; in-memory is for CAPD's in-memory machines.",
)
@_switch("--leader-elect", "Work only while holding the Lease that upstream's provider uses too.")
@click.option(
    "--leader-elect-resource-name",
    default=LEADER_ELECTION_LEASE,
    show_default=True,
    callback=_written_as(DNS_SUBDOMAIN, 253, "a name as Kubernetes takes it"),
    help="The name of the Lease. Managers side by side, each with a --watch-filter of its own, each have one of their own.",
)
@_seconds("--leader-elect-lease-duration", 60.0, "How long a candidate waits before it takes over a Lease that is not renewed.")
@_seconds("--leader-elect-renew-deadline", 40.0, "How long the leader tries to renew its Lease before it gives up and ends.")
@_seconds("--leader-elect-retry-period", 5.0, "How long to wait between two tries.")
@click.option(
    "--kubeadmcontrolplane-concurrency",
    "concurrency",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="How many control planes are worked on at once.",
)
@click.option(
    "--kube-api-qps",
    type=click.FloatRange(0, min_open=True),
    default=100.0,
    show_default=True,
    help="Requests a second to the management cluster.",
)
@click.option("--kube-api-burst", type=click.IntRange(1), default=200, show_default=True, help="Requests that may exceed the rate at once.")
@click.option(
    "--clustercache-client-qps",
    "workload_qps",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Requests a second to each workload cluster.",
)
@click.option(
    "--clustercache-client-burst",
    "workload_burst",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="Requests that may exceed that rate at once.",
)
@click.option(
    "--remote-conditions-grace-period",
    type=Duration(),
    default=300.0,
    show_default="5m",
    callback=_grace_period,
    help="How long a workload cluster may be silent before its conditions turn Unknown; at least 2m.",
)
@click.option("--health-addr", default=":9440", show_default=True, help="Where /healthz and /readyz are served; 0: nowhere.")
@click.option("--diagnostics-address", default=":8443", show_default=True, help="Where /metrics is served; 0: nowhere.")
@_switch("--insecure-diagnostics", "Serve /metrics over plain HTTP and without asking who reads.")
@click.option(
    "--tls-min-version", type=click.Choice(["VersionTLS12"]), default="VersionTLS12", show_default=True, help="The least TLS version."
)
@click.option(
    "--webhook-port",
    type=click.IntRange(0, 65535),
    default=9443,
    show_default=True,
    help="Where admission and conversion webhooks are served; 0: nowhere, for an installation without them.",
)
@click.option(
    "--webhook-cert-dir",
    default="/tmp/k8s-webhook-server/serving-certs/",  # noqa: S108 - upstream's
    show_default=True,
    metavar="DIR",
    help="The folder of their certificate and key, which may be replaced at any time.",
)
@click.option("--webhook-cert-name", default="tls.crt", show_default=True, help="The certificate's file there.")
@click.option("--webhook-key-name", default="tls.key", show_default=True, help="The key's file there.")
@click.option("--feature-gates", default="", callback=_gates, metavar="NAME=BOOL,...", help="Upstream's feature gates.")
@click.option("--logging-format", type=click.Choice(["json", "text"]), help="The form of the logs; text on a terminal, otherwise json.")
@click.option(
    "--v", "-v", "verbosity", type=click.IntRange(0), default=2, show_default=True, help="4 and above: log every request that fails."
)
@_ignored_flags
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run the Cluster API control-plane provider until SIGTERM.

    Names and defaults are those of Cluster API's kubeadm control-plane provider; its other flags are accepted, and do nothing.
    """
    from quorate.cli import logs

    text = given.pop("logging_format") == "text" if given["logging_format"] else sys.stderr.isatty()
    given.pop("logging_format", None)
    logs.configure(level=logging.DEBUG if given.pop("verbosity") >= _DEBUG_VERBOSITY else logging.INFO, json=not text)
    _warn(ctx.meta.get(_IGNORED, []), given["feature_gates"])
    given.pop("tls_min_version")
    options = _options(given)
    ctx.exit(_run(options))


def _run(options: Options) -> int:
    """Run to the end; an error that nobody foresaw is logged with its stack, because a Pod's log is all that is left of it."""
    import structlog

    from quorate.cli import event_loop
    from quorate.clusterapi import manager
    from quorate.kubernetes.config import ConfigError
    from quorate.kubernetes.manager import run_until_signal

    try:
        with _webhooks(options) as webhook_process:
            return event_loop.run(run_until_signal(lambda stopping: manager.run(options, stopping, webhook_process)))
    except (ConfigError, OSError):
        raise
    except Exception:
        structlog.get_logger(__name__).exception("the manager failed")
        raise


@contextmanager
def _webhooks(options: Options) -> Iterator[WebhookProcess | None]:
    """The process that serves webhooks, forked before anything runs here; none at port 0. Raises ConfigError where there is no certificate for it."""
    from quorate.cli import event_loop
    from quorate.clusterapi.webhooks import process
    from quorate.kubernetes.config import ConfigError
    from quorate.kubernetes.serving_pairs import CertificateFiles

    if not options.webhook_port:
        yield None
        return
    folder = Path(options.webhook_cert_dir)
    certificates = CertificateFiles(folder / options.webhook_cert_name, folder / options.webhook_key_name)
    try:
        certificates.read()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the webhooks' certificate cannot be used: {error}: give it in --webhook-cert-dir, or serve no webhooks with --webhook-port=0"
        ) from error
    settings = process.Settings(options.webhook_port, options.kubeconfig, options.context, options.feature_gates)
    with process.beside(lambda channel: event_loop.run(process.serve(settings, channel))) as channel:
        yield process.WebhookProcess(channel, certificates)


def _options(given: dict[str, Any]) -> Options:
    from quorate.clusterapi.connect.workloads import EtcdDialer
    from quorate.clusterapi.manager import Options
    from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES

    gates = {**dict.fromkeys(DEFAULT_FEATURE_GATES, True), **given["feature_gates"]}
    on = frozenset(gate for gate, enabled in gates.items() if enabled)
    return Options(**{**given, "etcd_dialer": EtcdDialer(given["etcd_dialer"]), "feature_gates": on})


def _warn(ignored: list[str], gates: dict[str, bool]) -> None:
    import structlog

    log = structlog.get_logger(__name__)
    for flag in ignored:
        log.warning("flag ignored", flag=flag, reason=IGNORED_FLAGS[flag.removeprefix("--")])
    for gate, enabled in gates.items():
        if enabled and FEATURE_GATES[gate]:
            log.warning("feature gate ignored", featureGate=gate, reason=FEATURE_GATES[gate])
