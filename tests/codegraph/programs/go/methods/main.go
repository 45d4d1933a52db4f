package main

type Server struct {
	name string
}

func NewServer() *Server { return &Server{name: "x"} }

func (s *Server) Run() { s.step() }

func (s *Server) step() {}

func main() {
	s := NewServer()
	s.Run()
	var t Server
	t.step()
}
