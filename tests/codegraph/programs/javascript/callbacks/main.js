function each(list, f) {
  for (const item of list) {
    f(item);
  }
}

function show(x) {
  x();
}

function a() {}

each([a], show);
[a].map((f) => f());
[3, 1].sort(compare);
function compare() {}
