function counter(done) {
  let hook = done;
  return function tick() {
    hook();
  };
}

function finished() {}

counter(finished)();
const later = hoisted;
later();
function hoisted() {}
