class Box {
  get value() {
    return this.load();
  }
  set value(v) {
    this.check(v);
  }
  load() {}
  check(v) {}
}

const box = new Box();
box.value;
box.value = 3;
