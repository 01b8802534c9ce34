"""Questions to whoever typed a command, which nothing is done without."""

from __future__ import annotations

import click

from quorate.cli.failures import ExitCode, Failure


def confirm(question: str, *, yes: bool) -> None:
    """Ask for the word yes, unless it was given on the command line. Raises Failure where nobody can be asked, and ends the command where the answer is no."""
    if yes:
        return
    if not at_a_terminal():
        raise Failure("cannot ask, since this is not a terminal: give -y to go on without a question", ExitCode.WRONG_COMMAND_LINE)
    if click.prompt(f"{question} Only yes is accepted", default="", show_default=False, prompt_suffix=": ").strip() != "yes":
        click.echo("canceled; nothing was changed")
        click.get_current_context().exit(ExitCode.OK)


def confirm_by_name(name: str, given: str | None) -> None:
    """Have the cluster's name typed, unless it was given on the command line. Raises UsageError where another was, Failure where nobody can be asked, and ends
    the command where something else is typed.
    """
    if given is not None:
        if given != name:
            raise click.UsageError(f"--confirm {given} is not the cluster of this manifest, which is called {name}")
        return
    if not at_a_terminal():
        raise Failure(
            f"cannot ask, since this is not a terminal: give --confirm {name} to destroy the cluster", ExitCode.WRONG_COMMAND_LINE
        )
    if click.prompt("Type the cluster's name to destroy it", default="", show_default=False, prompt_suffix=": ").strip() != name:
        click.echo("canceled; nothing was changed")
        click.get_current_context().exit(ExitCode.OK)


def at_a_terminal() -> bool:
    """Whether somebody can be asked."""
    import sys

    return sys.stdin.isatty() and sys.stdout.isatty()
