import Thing from './thing';
import make from './make';
import value from './value';

new Thing().go();
make();
value.run();
