#include <algorithm>

class Base {
public:
    void base() {}
};

class Box : public Base {
public:
    Box() { init(); }
    void open();
    void init() { this->close(); base(); }
    void close() {}
    static int make() { return std::max(1, 2); }
};

void Box::open() { close(); }

int main() { Box *b = new Box(); Box::make(); b->open(); }
