"""From a message to the bytes of groups of clients: interest, groups, encoding, conflation, slow consumers, backlogs.

Laws:

* Order per subject holds for every client: what a group has pending is written before its membership changes.
* A message is encoded, and compressed, once per wire form; its bytes are shared by every group, client and queue.
* A client's queue is bounded: it never blocks a publisher, and the client whose queue overflows is closed with a code.
* Work that grows with clients or messages is done in slices, and what one turn had no room for is said to be behind.
"""
