import run, { helper as h } from './lib.js';
import * as all from './lib';
import { readFileSync } from 'fs';

run();
h();
all.helper();
readFileSync('x');
console.log('x');
