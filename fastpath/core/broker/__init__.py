"""The broker: admits, numbers by its engine, keeps and delivers what is published, and hands on all that it holds."""
