"""The proxy: rules in the config file make endpoints of other services durable."""
