"""Rights by the project's own code: its function is asked where a token is made, and the token carries the answer.

Laws:

* It only allows, and only what no rule is about: a rule that denies always wins.
* What is no answer gives no token, and never one with less or more than was meant.
"""
