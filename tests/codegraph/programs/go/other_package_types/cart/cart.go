package cart

type Cart struct{}

func New() *Cart { return &Cart{} }

func (c *Cart) Add() { c.Total() }

func (c *Cart) Total() {}
