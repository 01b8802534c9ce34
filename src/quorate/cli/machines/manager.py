"""`quorate manager`: the provider's process, with the flags of the provider that it replaces.

Source: cluster-api v1.14, controlplane/kubeadm/main.go, for names and defaults. Flags of upstream without a meaning here are accepted with a warning where
ignoring them does no harm, so that its Deployment can be pointed at this image; flags that would weaken something if ignored are refused.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.durations import Duration
from quorate.clusterapi.types.names import LEADER_ELECTION_LEASE
from quorate.clusterapi.types.schema import DNS_SUBDOMAIN, LABEL_VALUE

if TYPE_CHECKING:
    from quorate.clusterapi.manager import Options

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

FEATURE_GATES = (
    "ClusterTopology",
    "InPlaceUpdates",
    "KubeadmBootstrapFormatIgnition",
    "MachinePool",
    "MachineSetPreflightChecks",
    "MachineTaintPropagation",
    "MachineWaitForVolumeDetachConsiderVolumeAttachments",
    "PriorityQueue",
    "ReconcilerRateLimiting",
    "RuntimeSDK",
)
"""Upstream's gates. What does not depend on one is the same whether it is on or off."""

IGNORED_FLAGS = {
    "clustercache-concurrency": "each workload cluster has its own connection",
    "contention-profiling": "there is no profiler",
    "etcd-call-timeout-duration": "each call has its own deadline",
    "etcd-client-log-level": "the etcd client logs with everything else",
    "etcd-dial-timeout-duration": "each call has its own deadline",
    "log-flush-frequency": "logs are written at once",
    "profiler-address": "there is no profiler",
    "skip-crd-migration-phases": "no stored object needs migrating",
    "sync-period": "watches are checked for silence instead",
    "vmodule": "set --v for all modules",
    "webhook-cert-dir": "no webhook is served",
    "webhook-cert-name": "no webhook is served",
    "webhook-key-name": "no webhook is served",
    "webhook-port": "no webhook is served",
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
    "--kubeconfig", metavar="FILE", help="The management cluster. Default: KUBECONFIG, ~/.kube/config, or the Pod's service account."
)
@click.option("--context", help="The kubeconfig's context to use instead of its current one.")
@click.option("--namespace", default="", help="The only namespace to work in. Default: all.")
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
    help="How to reach the workload clusters' etcd; in-memory is for CAPD's in-memory machines.",
)
@_switch("--leader-elect", "Work only while holding a Lease; by default the one that upstream's provider uses.")
@click.option(
    "--leader-elect-resource-name",
    default=LEADER_ELECTION_LEASE,
    show_default=True,
    callback=_written_as(DNS_SUBDOMAIN, 253, "a name as Kubernetes takes it"),
    help="The name of the Lease. Give each --watch-filter a Lease of its own.",
)
@_seconds("--leader-elect-lease-duration", 60.0, "How long a candidate waits before it takes over a Lease that is not renewed.")
@_seconds("--leader-elect-renew-deadline", 40.0, "How long the leader tries to renew its Lease before it gives up and exits.")
@_seconds("--leader-elect-retry-period", 5.0, "How long to wait between attempts.")
@click.option(
    "--kubeadmcontrolplane-concurrency",
    "concurrency",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="How many control planes to reconcile at once.",
)
@click.option(
    "--kube-api-qps",
    type=click.FloatRange(0, min_open=True),
    default=100.0,
    show_default=True,
    help="Requests per second to the management cluster.",
)
@click.option(
    "--kube-api-burst",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="How many requests a burst to the management cluster may have.",
)
@click.option(
    "--clustercache-client-qps",
    "workload_qps",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Requests per second to each workload cluster.",
)
@click.option(
    "--clustercache-client-burst",
    "workload_burst",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="How many requests a burst to a workload cluster may have.",
)
@click.option(
    "--remote-conditions-grace-period",
    type=Duration(),
    default=300.0,
    show_default="5m",
    callback=_grace_period,
    help="How long after losing a workload cluster its conditions turn Unknown; at least 2m.",
)
@click.option("--health-addr", default=":9440", show_default=True, help="Address to serve /healthz and /readyz on; 0 switches it off.")
@click.option("--diagnostics-address", default=":8443", show_default=True, help="Address to serve /metrics on; 0 switches it off.")
@_switch("--insecure-diagnostics", "Serve /metrics over plain HTTP, without authentication.")
@click.option(
    "--tls-min-version", type=click.Choice(["VersionTLS12"]), default="VersionTLS12", show_default=True, help="The minimum TLS version."
)
@click.option(
    "--runtime-extension-client-cert-file",
    default="",
    metavar="FILE",
    help="The client certificate (PEM) shown to runtime extensions, read anew for each call.",
)
@click.option("--runtime-extension-client-key-file", default="", metavar="FILE", help="Its key.")
@click.option("--feature-gates", default="", callback=_gates, metavar="NAME=BOOL,...", help="Upstream's feature gates.")
@click.option("--logging-format", type=click.Choice(["json", "text"]), help="Log format. Default: text on a terminal, otherwise json.")
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
    _warn(ctx.meta.get(_IGNORED, []))
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
        return event_loop.run(run_until_signal(lambda stopping: manager.run(options, stopping)))
    except (ConfigError, OSError):
        raise
    except Exception:
        structlog.get_logger(__name__).exception("the manager failed")
        raise


def _options(given: dict[str, Any]) -> Options:
    from quorate.clusterapi.connect.workloads import EtcdDialer
    from quorate.clusterapi.manager import Options
    from quorate.clusterapi.types.names import DEFAULT_FEATURE_GATES

    gates = {**dict.fromkeys(DEFAULT_FEATURE_GATES, True), **given["feature_gates"]}
    on = frozenset(gate for gate, enabled in gates.items() if enabled)
    return Options(**{**given, "etcd_dialer": EtcdDialer(given["etcd_dialer"]), "feature_gates": on})


def _warn(ignored: list[str]) -> None:
    import structlog

    log = structlog.get_logger(__name__)
    for flag in ignored:
        log.warning("flag ignored", flag=flag, reason=IGNORED_FLAGS[flag.removeprefix("--")])
