export { cut } from './cut';
export * from './saw';
export * as deep from './deep';
