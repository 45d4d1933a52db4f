const api = {
  get() {
    return this.send();
  },
  send: () => {},
  nested: { run: function () {} },
};

api.get();
api.nested.run();
const { send } = api;
send();
api['send']();
api.extra = () => {};
api.extra();
