package store

func Open() { prepare() }

func prepare() {}
