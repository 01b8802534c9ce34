"""The `quorate` command: its sub-commands by name, loaded when called, and the one place where errors become exit codes.

`quorate --help` has to come within 150 ms, tab completion included: a sub-command's module is imported when it is called, and its short help is kept here.
The exit codes are in `quorate.cli.exit_codes`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from quorate.cli import exit_codes
from quorate.cli.failures import ExitCode, failure_of, first, is_closed, pass_over

COMMANDS = {
    "apply": ("hosts.apply", "Install, repair or upgrade existing hosts to match the manifest."),
    "certificates": ("hosts.certificates", "Show or renew the certificates of existing hosts."),
    "config": ("hosts.config", "Print the MachineDeployments of a manifest."),
    "etcd": ("hosts.etcd", "List etcd's members on existing hosts, or save a snapshot."),
    "explain": ("explain", "Show the next step for a control plane, and why."),
    "get": ("machines.get", "List control planes."),
    "kubeconfig": ("hosts.kubeconfig", "Print the administrator's kubeconfig of existing hosts."),
    "local": ("machines.local", "Start, stop or show a local management cluster."),
    "manager": ("machines.manager", "Run the Cluster API control-plane provider."),
    "plan": ("plan", "Show every step before anything happens."),
    "reset": ("hosts.reset", "Reset hosts after a quorum check, or destroy the cluster."),
    "simulate": ("simulate", "Simulate control planes with faults, and check every invariant."),
    "status": ("hosts.status", "Show existing hosts, etcd's members and the next step."),
    "run": ("machines.run", "Run a demo control plane on this machine, shown live."),
}
"""Sub-command, its module here (whose attribute `command` it is), and its line in the help."""

_MAY_BE_EMPTY = ("manager",)
"""Whose flags are upstream's: there an empty value means the default."""
_EMPTY_VALUE = re.compile(r"--[\w-]+=")


def _refuse_what_is_empty(arguments: list[str]) -> None:
    """Nothing that these commands take is ever empty: it is a shell's variable that is not set, and would be read as if nothing had been said. Raises
    UsageError, with a code that no command uses for what it found.
    """
    for number, argument in enumerate(arguments):
        if argument and not _EMPTY_VALUE.fullmatch(argument):
            continue
        where = argument or f"after {arguments[number - 1]}" if number else "the first"
        error = click.UsageError(f"an argument is empty ({where}): is a variable of your shell not set?")
        error.exit_code = ExitCode.WRONG_COMMAND_LINE  # type: ignore[misc]  # click declares it for the class
        raise error


@contextmanager
def _readers() -> Iterator[None]:
    """End quietly where nobody reads any more what is printed."""
    try:
        yield
        sys.stdout.flush()
    except Exception as error:
        if not isinstance(first(error), BrokenPipeError) or not is_closed(sys.stdout):
            raise
        pass_over(sys.stdout)
        raise click.exceptions.Exit(ExitCode.UNREAD) from None


class _Commands(click.Group):
    """Sub-commands that are imported when they are called."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name not in _MAY_BE_EMPTY and not ctx.resilient_parsing:
            _refuse_what_is_empty(rest)
        return name, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"quorate.cli.{COMMANDS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _readers():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _readers():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise failure_of(error) from error


@click.command(cls=_Commands, epilog=exit_codes.epilog(), context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error, and log requests that fail.")
@click.version_option(package_name="quorate", message="quorate %(version)s")
def quorate(debug: bool) -> None:
    """Kubernetes control planes that keep their quorum."""


def main() -> None:
    """The entry point of the installed command."""
    quorate(prog_name="quorate")
