"""The file descriptors of a process that is connected to many workload clusters: how many it may have, and what fits into them."""

from __future__ import annotations

import resource
from dataclasses import dataclass

_OWN = 256
"""For everything but workload clusters: the management cluster, servers, and connections that are made or end."""
_OF_API = 3
"""For a workload cluster's API: two watches, and a connection for questions."""
_OF_MEMBER = 4
"""For a connection to an etcd member through the API server."""
_MEMBERS = 3
_MOST_CONNECTIONS = 4096
"""To etcd, for their memory: 150 KiB each."""
_ENOUGH = 1 << 20


@dataclass(frozen=True, slots=True)
class Descriptors:
    """So many are there to be had."""

    limit: int

    @property
    def control_planes(self) -> int:
        """Of three members: how many have room with all their connections."""
        return max(1, (self.limit - _OWN) // (_OF_API + _MEMBERS * _OF_MEMBER))

    @property
    def etcd_connections(self) -> int:
        """How many connections to etcd are kept."""
        return min(_MOST_CONNECTIONS, self.control_planes * _MEMBERS)


def raised() -> Descriptors:
    """Raise the soft limit of this process to the hard one, which costs nothing, and answer what there is then.

    The soft limit is 1,024 nearly everywhere, for programs that use select(2): 51 control planes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has a limit of its own below one that says "infinite"
            wanted = soft
    return Descriptors(wanted if soft == resource.RLIM_INFINITY else max(soft, wanted))
