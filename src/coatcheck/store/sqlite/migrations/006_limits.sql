-- This number belongs to the limits of kinds, queues and keys.
SELECT 1;
