export default function start() {
  helper();
}

export function helper() {}
