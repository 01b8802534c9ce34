"""The picture of a bench: what is drawn is what was measured."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tests.bench.measure import CREATE, STEPS
from tests.bench.plots import picture
from tests.bench.results import Provider, Run, Step
from tests.bench.waiting import Waiting


def run(provider: Provider, seconds: float) -> Run:
    steps = [Step(name, seconds * (1 + number), 0.5, 80 << 20, {"patch": 10}, 0, Waiting(0, 0, 0)) for number, name in enumerate(STEPS)]
    return Run(provider, 2.0, 1, 0.1, steps, [])


def bars(drawn: str) -> list[int]:
    """The widths of all bars, from top to bottom."""
    return [int(width) for width in re.findall(r'<rect x="274" y="\d+" width="(\d+)" height="12"', drawn)]


def test_a_bar_is_as_long_as_its_figure_beside_the_longest_of_its_group() -> None:
    drawn = picture([run(Provider.UPSTREAM, 10.0), run(Provider.QUORATE, 5.0)], 2.0)
    widths = bars(drawn)
    assert len(widths) == 2 * (len(STEPS) + 3)
    longest = max(widths)
    assert [round(width / longest * 10 * len(STEPS)) for width in widths[:4]] == [10, 5, 20, 10]
    assert widths[2 * len(STEPS) :] == [longest] * 6  # CPU, writes and memory are alike
    assert CREATE in drawn


def test_a_provider_that_was_not_measured_is_said_not_to_have_been() -> None:
    drawn = picture([run(Provider.QUORATE, 5.0)], 2.0)
    assert drawn.count("not measured") == len(STEPS) + 3
    ET.fromstring(drawn)
