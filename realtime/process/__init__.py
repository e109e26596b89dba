"""Processes that ``runrealtime`` starts and ends: the supervisor, what may be left behind, the hooks' own one."""
