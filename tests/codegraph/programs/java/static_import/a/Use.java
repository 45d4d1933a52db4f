package a;

import static b.Maths.square;
import b.*;

class Use {
    void go() {
        square(2);
        new Other().run();
    }
}
