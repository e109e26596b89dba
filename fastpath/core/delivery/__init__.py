"""From a message to the bytes of groups of clients: interest, groups, encoding, conflation, slow consumers, backlogs.

Order per subject holds for every client, and what is made for one client is shared by all that want the same bytes.
"""
