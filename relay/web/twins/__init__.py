"""The pages' JSON twins as pydantic models: what OpenAPI says of them. A page is made of the same map; a test holds
each twin against its model, field by field."""
