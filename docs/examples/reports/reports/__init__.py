"""Reports that a worker of Celery makes, while a page shows how far it is."""
