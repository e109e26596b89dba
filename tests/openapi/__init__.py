"""Both ports held against their OpenAPI document."""
