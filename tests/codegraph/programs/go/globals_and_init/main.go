package main

var handler = first

type Logger struct{}

func (l Logger) Write() {}

var log = Logger{}

func first() {}

func init() { setup() }

func setup() { log.Write() }

func main() { handler() }
