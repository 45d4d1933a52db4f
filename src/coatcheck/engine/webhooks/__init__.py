"""Webhook endpoints and the dispatcher that delivers to them."""
