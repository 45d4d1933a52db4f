package main

import "fmt"

func main() {
	helper()
	fmt.Println(compute())
}

func helper() { other() }

func compute() int { return 1 }
