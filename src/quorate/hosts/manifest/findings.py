"""What reading a manifest finds: mistakes, each with its place, and warnings.

Everything is collected before anything is raised, so that one run shows every mistake. No message holds a value that could be a secret, and
each is one printable line, whatever keys a document has.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.core.text import printable

ROOT = ""
"""The path of the whole manifest."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where something was written: a document, and a line in it (from 1) or, where lines say nothing, the path of a Terraform output."""

    source: str
    line: int | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the manifest's field, what is wrong with it and the way out, and where it was written."""

    path: str
    message: str
    mark: Mark

    def __str__(self) -> str:
        subject = self.mark.path or self.path
        place = f"{self.mark.source}:{self.mark.line}" if self.mark.line else self.mark.source
        return printable(f"{place}: {subject}: {self.message}" if subject else f"{place}: {self.message}")


@dataclass(frozen=True, slots=True)
class Notice:
    """Something in a manifest that is allowed, and that its author should know of."""

    path: str
    message: str

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}")


@dataclass(frozen=True, slots=True)
class Ignored:
    """A field that has no effect, because it asks for what quorate does not do."""

    path: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return printable(f"{self.path} is ignored: {self.reason}; {self.remedy}")


class ManifestError(ValueError):
    """A manifest, or the Terraform output merged into it, that cannot be used. `problems` are all that was found, in the order of the lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        lines = [str(problem) for problem in problems]
        super().__init__(lines[0] if len(lines) == 1 else "\n  ".join([f"{len(lines)} mistakes:", *lines]))


@dataclass(slots=True)
class Findings:
    """What one reading has found so far. `marks` tells where each path was written; a path that was not written counts as where its parent was."""

    source: str
    marks: dict[str, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    muted: set[str] = field(default_factory=set)

    def wrong(self, path: str, message: str, mark: Mark | None = None) -> None:
        """Record a mistake, unless the same field, one in it or one around it has one already: that one has to be corrected first.

        What many hosts have from one Terraform output is told once.
        """
        where = mark or self.mark(path)
        if any(related(path, other) for other in (*self.muted, *(problem.path for problem in self.problems))):
            return
        if not any((where, message) == (problem.mark, problem.message) for problem in self.problems if where.path):
            self.problems.append(Problem(path, message, where))

    def mute(self, path: str) -> None:
        """Record no mistake about this field from now on: a mistake elsewhere has kept it from being filled in."""
        self.muted.add(path)

    def tell(self, path: str, message: str) -> None:
        """Record what the author should know."""
        self.notices.append(Notice(path, message))

    def ignore(self, path: str, reason: str, remedy: str) -> None:
        """Record that a field has no effect."""
        self.ignored.append(Ignored(path, reason, remedy))

    def mark(self, path: str) -> Mark:
        """Where this path was written, or else the nearest around it."""
        while path and path not in self.marks:
            path = parent(path)
        return self.marks.get(path, Mark(self.source))

    def error(self) -> ManifestError:
        """Every mistake found so far, as the error to raise."""
        return ManifestError(tuple(sorted(self.problems, key=lambda problem: (problem.mark.line or 0, problem.mark.path, problem.path))))


def child(path: str, key: str) -> str:
    """The path of a field. A key with a dot in it, as labels have, is written in brackets."""
    if "." in key or "[" in key:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def item(path: str, index: int) -> str:
    """The path of an item in a list."""
    return f"{path}[{index}]"


def parent(path: str) -> str:
    """The path around this one; that of the whole manifest for one of its own fields."""
    return path[: max(path.rfind("."), path.rfind("["), 0)] if not path.endswith("]") else path[: path.rfind("[")]


def related(first: str, second: str) -> bool:
    """Whether one of the two paths is the other, or lies in it. The whole manifest is around everything, and is related to itself alone."""
    return first == second or _inside(first, second) or _inside(second, first)


def _inside(inner: str, outer: str) -> bool:
    return bool(outer) and inner.startswith((f"{outer}.", f"{outer}["))
