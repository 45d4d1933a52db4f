package main

type Store interface{ Save() }

type Disk struct{}

func (d Disk) Save() {}

func persist(s Store) { s.Save() }

func unknown(s Store) { s.Save() }

func main() { persist(Disk{}) }
