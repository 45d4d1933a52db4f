package main

func a() {}
func b() {}

func main() {
	table := map[string]func(){"a": a, "b": b}
	table["a"]()
	list := []func(){b}
	for _, f := range list {
		f()
	}
}

func grow() {
	var jobs []func()
	jobs = append(jobs, a)
	for _, job := range jobs {
		job()
	}
}
