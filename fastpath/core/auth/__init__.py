"""Who may do what: grants by mode, rules, tokens and their keys, hooks, allowed addresses and origins.

Laws:

* Deny by default: what no rule, claim or hook allows is denied.
* An answer that is not known yet is "not ready", never "denied": before the rules have arrived, and while a hook is
  asked.
* An answer names its reason, the same for every port.
* A token is verified once, when it comes; a change of rules or keys that concerns its bearer is applied to it again.
"""
