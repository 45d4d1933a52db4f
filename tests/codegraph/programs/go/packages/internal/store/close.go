package store

func Close() { prepare() }
