class Animal {
  constructor(name) {
    this.name = name;
  }
  speak() {
    this.sound();
  }
  sound() {}
  static create() {
    return new this('x');
  }
}

class Dog extends Animal {
  constructor(name) {
    super(name);
    super.speak();
  }
  sound() {}
}

new Dog('a').speak();
Dog.create();
