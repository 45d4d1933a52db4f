const lib = require('./lib');

lib.first();
lib.second();
