package main

func apply(f func(int) int, x int) int { return f(x) }

func double(x int) int { return x * 2 }

func adder() func() {
	return func() { double(1) }
}

func main() {
	apply(double, 2)
	add := adder()
	add()
	func() { double(3) }()
}
