"""Tests of the Django side: publish(), the HTTP endpoints, the relay and the supervisor."""
