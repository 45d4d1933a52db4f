export const cut = () => {};
