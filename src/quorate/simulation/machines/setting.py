"""What is drawn before a simulation begins: the control plane that its user asks for, and how the provider is run."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from quorate.simulation.machines.cluster_objects import Wanted
from quorate.simulation.machines.extension import CONFIGURATION, INFRASTRUCTURE, VERSION

_UPDATES = (None, None, frozenset({VERSION, CONFIGURATION, INFRASTRUCTURE}), frozenset({CONFIGURATION}))
"""What an extension updates in place; half have none, and the feature gate off."""
_EXTERNAL, _BY_HAND, _ELECTED = 0.15, 0.15, 0.4  # of all simulations


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of one simulation. With `elected` two processes are kept running, of which one leads; otherwise one, which does not ask."""

    wanted: Wanted
    elected: bool

    @property
    def traits(self) -> tuple[str, ...]:
        """What sets it apart from the plainest, in words."""
        named = {"elected": self.elected, "external etcd": self.wanted.external_etcd, "adopted": bool(self.wanted.by_hand)}
        named |= {"updated in place": self.wanted.updates is not None}
        return tuple(name for name, there in named.items() if there)


def draw(random: Random, extensions: Random) -> Setting:
    """A setting. Machines that are to be adopted come with an etcd of their own. What an extension can do is drawn from another sequence."""
    replicas = random.choice((1, 3, 3, 3, 5))
    external, by_hand = random.random() < _EXTERNAL, random.random() < _BY_HAND
    wanted = Wanted(
        replicas=replicas,
        external_etcd=external,
        by_hand=random.choice((1, 1, 3)) if by_hand and not external else 0,
        version=random.choice(("v1.30.4", "v1.33.1", "v1.34.2")),
        max_surge=random.choice((1, 1, 0)) if replicas > 1 else 1,
        failure_domains=random.choice(((), ("a", "b", "c"))),
        updates=extensions.choice(_UPDATES),
    )
    return Setting(wanted, elected=random.random() < _ELECTED)
