"""The proxy surface: rules in the config file make endpoints of other services durable."""
