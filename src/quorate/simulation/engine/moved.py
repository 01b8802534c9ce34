"""What moving an object to another management cluster makes of it. Pure.

Source: cluster-api, cmd/clusterctl/client/cluster/mover.go: objects are created anew, owners first, and what a create drops is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def moved(obj: Mapping[str, Any], uids: Mapping[str, str]) -> dict[str, Any]:
    """The object as it is created in the other cluster: under another uid, owned by what moved with it, and without a status.

    `uids` has the new ones by the old. Labels, annotations, finalizers and the specification stay. What is being deleted is not moved: the caller sees to it.
    """
    metadata = {**obj["metadata"], "uid": uids[obj["metadata"]["uid"]]}
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [{**owner, "uid": uids.get(owner["uid"], owner["uid"])} for owner in owners]
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")} | {"metadata": metadata}
