"""From what was observed and decided to what is written: the control plane's status, its Machines' conditions, events. Pure: no I/O and no clock."""

from quorate.clusterapi.report.conditions import merge_conditions
from quorate.clusterapi.report.events import EventToSend
from quorate.clusterapi.report.machines import MachineConditions
from quorate.clusterapi.report.status import Report, report

__all__ = ["EventToSend", "MachineConditions", "Report", "merge_conditions", "report"]
