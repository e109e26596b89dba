"""The connections of the publisher port: batches, positions and ranges for readers, reports of jobs."""
