-- Sign-in attempts: who asked for the code, so that a stranger's attempts do not use up its owner's.
-- What the column means stands in schema.sql at the project's root.
ALTER TABLE sign_in_attempts ADD COLUMN asked_by TEXT;
-- Who somebody is at an OpenID provider holds for that issuer alone, and of these it is not known which one it was; the address that
-- the provider has verified ties them to their accounts anew.
DELETE FROM identities WHERE provider = 'oidc';
