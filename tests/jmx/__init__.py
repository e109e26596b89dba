"""Tests of the MBeans."""
