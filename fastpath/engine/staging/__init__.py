"""Where rows of transactions wait for their commit: in memory, in files beside the journal, or in Redis."""
