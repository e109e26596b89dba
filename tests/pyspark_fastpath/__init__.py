"""The data source that Spark finds by itself."""
