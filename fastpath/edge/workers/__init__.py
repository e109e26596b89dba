"""Several processes behind the same ports: links, the leader's log, followers, rights, presence, heartbeats, drain.

Laws:

* One worker of a node numbers, or hands to Redis; the others follow its log.
* What the first worker has acknowledged has been written to every worker that keeps up; while one is behind, publishers
  are held.
* A worker opens its port only when its copy is whole.
* Changes of rights stand in the stream to a worker where they took force.
* A worker that cannot keep up ends itself, and another takes its place.
"""
