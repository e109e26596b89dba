"""What is kept of each subject: its newest messages, its snapshot, and which publications were stored already.

A gap is never hidden: who asks from a position that the cache does not reach back to is told so.
"""
