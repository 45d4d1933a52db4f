package main

type Conn struct{}

func (c *Conn) Send() {}

func dial() (*Conn, error) { return &Conn{}, nil }

func main() {
	c, err := dial()
	if err != nil {
		panic(err)
	}
	c.Send()
	defer c.Send()
	go worker(c)
}

func worker(c *Conn) { c.Send() }
