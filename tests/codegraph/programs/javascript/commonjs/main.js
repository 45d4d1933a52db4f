const lib = require('./lib');
const { two, Three } = require('./lib');
const one = require('./one');
const path = require('path');

lib.two();
two();
new Three();
one();
path.join('a');
