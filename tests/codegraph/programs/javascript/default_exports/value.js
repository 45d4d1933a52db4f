const tool = { run() {} };
export { tool as default };
