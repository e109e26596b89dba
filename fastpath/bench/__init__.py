"""The benchmark kit: simulated subscribers and publishers, scenarios, the comparison with other servers, reports."""
