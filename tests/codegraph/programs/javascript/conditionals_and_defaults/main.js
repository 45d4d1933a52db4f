function a() {}
function b() {}
function c() {}

function pick(flag, fallback = c) {
  const job = flag ? a : b;
  job();
  (fallback || a)();
  let other = a;
  other = b;
  return other;
}

pick(true)();
try {
  a();
} catch (error) {
  b();
}
