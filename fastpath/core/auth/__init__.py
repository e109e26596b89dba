"""Who may do what: grants by mode, rules, tokens and their keys, hooks, allowed addresses and origins.

Two laws: what no rule, claim or hook allows is denied; and an answer names its reason, the same for every port.
"""
