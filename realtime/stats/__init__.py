"""Statistics over 12 windows: collected from all nodes, kept in the database (docs/operate/figures.md).

Laws:

* One collector at a time saves; another that takes over reads from the nodes what was not saved.
* Samples are put side by side by a clock that is never set, and what is made of them is computed without clock or
  database.
* While the database does not answer, what has been collected is kept until it does.
"""
