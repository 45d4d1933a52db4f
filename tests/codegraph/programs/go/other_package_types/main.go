package main

import "example.com/shop/cart"

type Page struct {
	cart *cart.Cart
}

func (p Page) Show() { p.cart.Total() }

func main() {
	c := cart.New()
	c.Add()
	other := &cart.Cart{}
	other.Total()
	Page{cart: c}.Show()
}
