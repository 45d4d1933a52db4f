package main

import (
	"example.com/app/internal/store"
	st "example.com/app/internal/store"
	"strings"
)

func main() {
	store.Open()
	st.Close()
	strings.ToUpper("x")
}
