package main

type Base struct{}

func (b *Base) Start() { b.prepare() }
func (b *Base) prepare() {}
func (b *Base) Stop() {}

type Service struct {
	Base
	extra int
}

func (s *Service) Stop() { s.Base.Stop() }

func main() {
	s := &Service{}
	s.Start()
	s.Stop()
}
