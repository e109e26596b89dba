"""What clients ask for: sessions, subscriptions to subjects and patterns, publications, and the rights behind them.

Rights are asked when a subscription begins, and again for every change of them: a revoked right stops data at once.
"""
