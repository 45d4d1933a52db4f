package main

type DB struct{}

func (d DB) Query() {}

type App struct {
	db    *DB
	hooks []func()
	next  *App
}

func (a *App) Handle() {
	a.db.Query()
	a.next.Handle()
}

func use(app *App) { app.db.Query() }
