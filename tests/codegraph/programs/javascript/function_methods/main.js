function greet(f) {
  f();
}

function a() {}

greet.call(null, a);
greet.apply(null, [a]);
const bound = greet.bind(null);
bound(a);
