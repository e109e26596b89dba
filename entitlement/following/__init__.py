"""How a change of rights reaches the sidecars: triggers note it, the agent reads, compiles and pushes it."""
