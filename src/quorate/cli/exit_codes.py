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
    Row(0, "done", "done; `quorate apply`, `reset`: also where the answer to the question was no"),
    Row(
        1,
        "failed in a way that no other code names",
        "failed in a way that no other code names; `quorate local status`: not everything runs",
        "the message; `--debug`",
    ),
    Row(
        2,
        "the command line is wrong; of plan, takeover --dry-run: there are changes",
        "the command line is wrong; `quorate plan`, `takeover --dry-run`, `handback --dry-run`: there are changes",
        "`--help`",
    ),
    Row(
        3,
        "something to build or run with is missing",
        "something to build or run with is missing: no Go, no network, no program in `.bin`",
        "`make programs`",
    ),
    Row(4, "a port is held by another process", helps="the message names the port and, where it can be seen, the process"),
    Row(
        5,
        "a program of the local cluster did not start",
        "a program ended, or was not ready in time, while the local cluster started",
        "the end of its log is in the message",
    ),
    Row(6, "another local cluster did not give way in time", helps="`quorate local down`, or wait"),
    Row(
        7,
        "the run folder cannot be used",
        "the run folder cannot be used: held by another start, not ours, or in another format",
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
        "the control plane is stalled, or a quorum would be lost: it waits for something that does not come by itself (`quorate explain`); "
        "`quorate takeover`, `handback`: something stands in the way, or everything was put back",
        "the remedy beside the failed check",
    ),
    Row(
        14,
        "hosts cannot be reached over SSH",
        "no host, or not the one that is needed, can be reached over SSH, or no API server or etcd member answers there",
        "the message names each host and the cause; `--accept-new-host-keys` for hosts that are new",
    ),
    Row(
        15,
        "a step on a host failed; the same command goes on from there",
        "a step on a host failed, or a file of records, plans or snapshots cannot be used",
        "the remedy in the message; then the same command goes on from there",
    ),
    Row(
        16,
        "somebody else works on these hosts, or on this takeover",
        "somebody else works on these hosts, or has since the run began, or a host cannot be locked; `quorate takeover`, `handback`: another run of either",
        "wait; the message says who, and since when, or what keeps a host from being locked",
    ),
    Row(
        17,
        "the plan is stale: the cluster has changed since",
        "the plan is stale: the cluster has changed since it was made, or approved. What it came to was not shown, and is not done",
        "`quorate plan` again, with `--out` where it is kept; the message says what changed",
    ),
    Row(
        64,
        "of plan: the command line is wrong, or the edit would be refused; an argument is empty",
        "`quorate plan`: the command line is wrong, or the edit would be refused; `quorate apply`, `reset`, `certificates renew`, `takeover`, `handback`: "
        "nobody can be asked, and there is no `-y` or `--confirm`; an argument is empty",
        "the message names the field; `--help`",
    ),
    Row(130, "interrupted; the same command goes on from there", "interrupted by a signal", "the same command goes on from there"),
    Row(
        141,
        "whoever read the output has closed it",
        "whoever read the output has closed it, as `head` does; `quorate apply`, `reset` and `certificates renew` go on to their end, unseen, and "
        "end with their own code",
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
