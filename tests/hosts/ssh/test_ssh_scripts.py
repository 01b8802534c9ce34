"""Scripts on a host: what reaches sh and how, how they end, and what is said when they do not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest

from quorate.hosts.connect.ssh.errors import ConnectionCut, DeadlineExceeded, OutputTooLong, SessionRefused, SudoRefused
from quorate.hosts.connect.ssh.host import SshHost
from quorate.hosts.connect.ssh.scripts import LIMIT, Order, Outcome
from quorate.hosts.connect.ssh.target import Target
from tests.hosts.conftest import NewHosts, NewMachine
from tests.hosts.ssh.machine import Machine


@pytest.fixture
def started(machine: Machine) -> Path:
    """A named pipe: a script that writes to it says that it runs."""
    path = machine.folder / "started"
    os.mkfifo(path)
    return path


async def opened(pipe: Path) -> None:
    """Wait until a script has written to the pipe."""
    await asyncio.to_thread(pipe.read_text)


async def test_a_script_tells_its_status_and_both_of_its_outputs(host: SshHost) -> None:
    outcome = await host.run("echo out; echo err >&2; exit 3", deadline=10, sudo=False)
    assert (outcome.exit_status, outcome.stdout, outcome.stderr) == (3, b"out\n", b"err\n")


async def test_data_reaches_the_script_as_its_stdin_byte_for_byte(host: SshHost) -> None:
    data = bytes(range(256)) * 400
    assert (await host.run("exec cat", stdin=data, deadline=10, sudo=False)).stdout == data


async def test_neither_script_nor_data_is_in_the_command_line(host: SshHost, machine: Machine) -> None:
    await host.run("token=abcdef; cat >/dev/null", stdin=b"ghijkl", deadline=10)
    assert machine.commands == ["env LC_ALL=C sudo -n -- timeout -k 5 10 sh -s"]


async def test_no_repr_shows_what_may_be_secret() -> None:
    order = Order("echo hunter2", b"hunter2", 1, 1, sudo=True)
    assert "hunter2" not in repr(order) + repr(Outcome(0, b"hunter2", b"hunter2"))


async def test_a_program_in_a_script_cannot_swallow_the_rest_of_it(host: SshHost) -> None:
    assert (await host.run("cat\necho after", deadline=10, sudo=False)).stdout == b"after\n"


async def test_a_script_that_does_not_read_what_it_was_given_is_no_failure(host: SshHost) -> None:
    outcome = await host.run("echo done", stdin=b"x" * 300_000, deadline=10, sudo=False)
    assert (outcome.exit_status, outcome.stdout) == (0, b"done\n")


async def test_a_script_stops_at_the_first_step_that_fails(host: SshHost) -> None:
    outcome = await host.run("false\necho after", deadline=10, sudo=False)
    assert (outcome.exit_status, outcome.stdout) == (1, b"")


@pytest.mark.parametrize("cut", [10, 60, -3, -2])
async def test_a_script_that_arrives_cut_in_half_does_nothing(machine: Machine, cut: int) -> None:
    payload = Order(f"touch {machine.folder}/touched\necho more", b"", 1, 1, sudo=False).payload
    child = await asyncio.create_subprocess_exec("sh", "-s", stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL)
    await child.communicate(payload[:cut])
    assert not (machine.folder / "touched").exists()


async def test_root_is_reached_by_sudo_only_where_it_is_wanted(host: SshHost, machine: Machine) -> None:
    assert (await host.run("echo as root", deadline=10)).stdout == b"as root\n"
    await host.run("echo as operator", deadline=9, sudo=False)
    assert (machine.folder / "sudo").read_text() == "-n -- timeout -k 5 10 sh -s\n"


async def test_the_root_user_uses_no_sudo(new_machine: NewMachine, new_hosts: NewHosts, new_target: Callable[..., Target]) -> None:
    machine = await new_machine(user="root")
    await new_hosts().host(new_target(machine, user="root")).run("true", deadline=10)
    assert machine.commands == ["timeout -k 5 10 sh -s"]


@pytest.mark.parametrize(
    ("says", "status"),
    [
        ("sudo: a password is required", 1),
        ("sudo: a terminal is required to read the password; either use the -S option to read from standard input", 1),
        ("sudo: sorry, you must have a tty to run sudo", 1),
        ("operator is not in the sudoers file.  This incident will be reported.", 1),
        ("Sorry, user operator is not allowed to execute '/usr/bin/timeout' as root on cp-1.", 1),
        ("sudo-rs: interactive authentication is required", 1),
        ("env: 'sudo': No such file or directory", 127),
    ],
)
async def test_sudo_that_wants_more_than_we_have_is_said_with_the_way_out(host: SshHost, machine: Machine, says: str, status: int) -> None:
    machine.program("sudo", f'echo "{says}" >&2; exit {status}')
    with pytest.raises(SudoRefused, match=r"^host cp-1 \(operator@127\.0\.0\.1:\d+\): sudo refuses: .*NOPASSWD"):
        await host.run("echo never", deadline=10)


async def test_a_warning_of_sudo_is_not_taken_for_a_refusal(host: SshHost, machine: Machine) -> None:
    machine.program("sudo", 'echo "sudo: unable to resolve host cp-1: Name or service not known" >&2; shift 2; exec "$@"')
    assert (await host.run("exit 1", deadline=10)).exit_status == 1


async def test_a_script_over_its_deadline_is_ended_on_the_host(host: SshHost) -> None:
    with pytest.raises(DeadlineExceeded, match=r"did not end within 1 s and was ended; it last wrote: half way") as caught:
        await host.run("echo half way >&2; exec sleep 60", deadline=1, sudo=False)
    assert caught.value.ended


async def test_a_script_that_ends_with_the_status_of_timeout_in_time_is_an_outcome(host: SshHost) -> None:
    assert (await host.run("exit 124", deadline=10, sudo=False)).exit_status == 124


async def test_a_host_that_does_not_end_a_script_is_left_alone_after_the_grace(
    machine: Machine, new_hosts: NewHosts, new_target: Callable[..., Target]
) -> None:
    async def deaf(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await process.channel.wait_closed()

    machine.serve = deaf
    host = new_hosts(grace=0.1).host(new_target(machine))
    with pytest.raises(DeadlineExceeded, match="the script may still run") as caught:
        await host.run("true", deadline=0.1, sudo=False)
    assert not caught.value.ended


async def test_a_script_killed_by_a_signal_has_the_status_that_sh_gives_it(host: SshHost) -> None:
    assert (await host.run("kill -9 $$", deadline=10, sudo=False)).exit_status == 137


async def test_a_connection_cut_in_the_middle_is_said_and_the_next_script_has_a_new_one(
    host: SshHost, machine: Machine, started: Path
) -> None:
    async def cut() -> None:
        await opened(started)
        machine.cut()

    async with asyncio.TaskGroup() as group:
        group.create_task(cut())
        with pytest.raises(ConnectionCut, match="look at the host before you run it again"):
            await host.run(f"echo >{started}; exec sleep 60", deadline=60, sudo=False)
    assert (await host.run("echo again", deadline=10, sudo=False)).stdout == b"again\n"
    assert len(machine.connections) == 2
    assert len(machine.commands) == 2


async def test_cancelling_a_script_frees_the_connection_for_the_next(host: SshHost, machine: Machine, started: Path) -> None:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(host.run(f"echo >{started}; exec sleep 60", deadline=60, sudo=False))
        await opened(started)
        running.cancel()
    assert (await host.run("echo next", deadline=10, sudo=False)).stdout == b"next\n"
    assert len(machine.connections) == 1


@pytest.mark.parametrize("stream", ["", ">&2"])
async def test_a_script_that_writes_without_end_is_dropped(host: SshHost, stream: str) -> None:
    with pytest.raises(OutputTooLong, match="more than 1 MiB"):
        await host.run(f"while :; do echo {'x' * 1000}; done {stream}", deadline=60, sudo=False)


async def test_output_up_to_the_limit_arrives(host: SshHost) -> None:
    assert len((await host.run(f"head -c {LIMIT} /dev/zero", deadline=10, sudo=False)).stdout) == LIMIT


async def test_a_host_that_starts_no_shell_says_so(new_machine: NewMachine, new_hosts: NewHosts, new_target: Callable[..., Target]) -> None:
    host = new_hosts().host(new_target(await new_machine(shells=False)))
    with pytest.raises(SessionRefused, match=r"no shell is started: .*ForceCommand"):
        await host.run("true", deadline=10, sudo=False)


async def test_many_scripts_share_one_connection_eight_at_a_time(host: SshHost, machine: Machine) -> None:
    running, most = 0, 0

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await machine.run(process)
        running -= 1

    machine.serve = serve
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(host.run(f"echo {number}", deadline=30, sudo=False)) for number in range(20)]
    assert [int(task.result().stdout) for task in tasks] == list(range(20))
    assert len(machine.connections) == 1
    assert most <= 8
