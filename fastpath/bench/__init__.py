"""The benchmark kit: simulated subscribers and publishers, the scenarios, the comparison with other servers, and reports."""
