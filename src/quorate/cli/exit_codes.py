"""What commands exit with, in one table: the help of `quorate` and docs/exit-codes.md are made from it (`make rules`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One code: in a few words for the help, and what it means and what helps for the page (empty: the few words say all)."""

    code: int
    short: str
    meaning: str = ""
    helps: str = ""


TABLE = (
    Row(0, "done", "done; `quorate apply`, `reset`: also if you answered no"),
    Row(
        1,
        "failed for a reason that has no other code",
        "failed for a reason that has no other code; `quorate local status`: a program does not run",
        "the message; `--debug`",
    ),
    Row(
        2,
        "the command line is wrong; of plan: there are changes",
        "the command line is wrong; `quorate plan`: there are changes",
        "`--help`",
    ),
    Row(
        3,
        "a program or tool that is needed is missing",
        "a program or tool that is needed is missing: no Go, no network, no program in `.bin`",
        "`make programs`",
    ),
    Row(4, "a port is in use by another process", helps="the message names the port and, if it can be seen, the process"),
    Row(
        5,
        "a program of the local cluster did not start",
        "a program ended, or was not ready in time, while the local cluster started",
        "the end of its log is in the message",
    ),
    Row(6, "another local cluster did not stop in time", helps="`quorate local down`, or wait"),
    Row(
        7,
        "the run folder cannot be used",
        "the run folder cannot be used: another start holds it, another program made it, or its format differs",
        "another `--folder`",
    ),
    Row(8, "building a program failed", helps="the compiler's message"),
    Row(
        10,
        "the kubeconfig, the manifest or Terraform's output is missing or malformed",
        "the kubeconfig, the manifest or Terraform's output is missing, malformed, or names something that is not there",
        "`--kubeconfig`, `--context`, `KUBECONFIG`; of a manifest every mistake is named with its line and the nearest known key",
    ),
    Row(
        11,
        "the management cluster refuses or does not answer",
        "the management cluster refuses (401, 403) or does not answer",
        "the message names the verb and the resource",
    ),
    Row(
        12,
        "there is no such control plane, or no such host in the manifest",
        helps="`quorate get -A`; the message names the manifest's hosts",
    ),
    Row(
        13,
        "the control plane is stalled, or would lose its quorum",
        "the control plane is stalled, or would lose its quorum: it needs you (`quorate explain` says for what)",
        "the remedy beside the failed check",
    ),
    Row(
        14,
        "hosts cannot be reached over SSH",
        "no host, or not a host that is needed, can be reached over SSH, or no API server or etcd member answers there",
        "the message names each host and the cause; `--accept-new-host-keys` for hosts that are new",
    ),
    Row(
        15,
        "a step on a host failed; run the same command again to continue",
        "a step on a host failed, or a file of records, plans or snapshots cannot be used",
        "follow the remedy in the message, then run the same command again: it continues from there",
    ),
    Row(
        16,
        "another operator works on these hosts",
        "another operator works on these hosts, or began to during the run, or a host cannot be locked",
        "wait; the message says who and since when, or why a host cannot be locked",
    ),
    Row(
        17,
        "the plan is stale: the cluster has changed since",
        "the plan is stale: the cluster has changed since it was made or approved. The next step was not shown to you, and was not taken",
        "run `quorate plan` again (with `--out` for a saved plan); the message says what changed",
    ),
    Row(
        64,
        "of plan: the command line is wrong, or the edit would be refused; or an argument is empty",
        "`quorate plan`: the command line is wrong, or the edit would be refused; `quorate apply`, `reset`, `certificates renew`: there is no "
        "terminal to ask on, and neither `-y` nor `--confirm` is given; every command: an argument is empty",
        "the message names the field; `--help`",
    ),
    Row(
        130,
        "interrupted; run the same command again to continue",
        "interrupted by a signal",
        "run the same command again: it continues from there",
    ),
    Row(
        141,
        "the reader of the output closed it",
        "the reader of the output closed it, as `head` does; `quorate apply`, `reset` and `certificates renew` still run to their end and exit with "
        "their own code",
    ),
)
"""3 to 8 are those of `quorate.local`. 64 is the number of sysexits.h for a wrong command line."""


def epilog() -> str:
    """For the help. \\b keeps click from filling the lines."""
    return "\n".join(["\b", "Exit codes:", *(f"{row.code:>4}  {row.short}" for row in TABLE)])


def page() -> str:
    """docs/exit-codes.md."""
    rows = [f"| {row.code} | {row.meaning or row.short} | {row.helps} |".replace("|  |", "| |") for row in TABLE]
    return "\n".join(
        [
            "# Exit codes",
            "",
            "Every `quorate` command ends with one of these. An error is one line on stderr; `quorate --debug COMMAND` shows its traceback. Data goes to",
            "stdout, everything else to stderr.",
            "",
            "| code | meaning | what helps |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    print(page(), end="")
