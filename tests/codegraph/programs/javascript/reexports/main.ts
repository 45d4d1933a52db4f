import { cut, Saw, deep } from './tools';

cut();
new Saw().use();
deep.dig();
