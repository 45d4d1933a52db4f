class Button {
  count = start();
  onClick = () => this.press();
  press() {}
  bindAll() {
    const self = this;
    [1].forEach(() => self.press());
  }
}

function start() {
  return 0;
}

const b = new Button();
b.onClick();
b.bindAll();
