/**
 * Named exports of jose, so that the bundler drops the rest of the library. identity-token.ts
 * imports this file on the first exchange.
 */
export { compactVerify, importJWK } from "jose";
