"""The rules, one family a module. Each is a pure function of the control plane and the time; their order is in `quorate.core.machines.decide`."""
