package zoo;

abstract class Animal {
    void speak() { sound(); }
    abstract void sound();
    void eat() {}
}

class Dog extends Animal {
    void sound() {}
    void eat() { super.eat(); }
}

class Zoo {
    void open() {
        Dog dog = new Dog();
        dog.speak();
        dog.eat();
    }
}
