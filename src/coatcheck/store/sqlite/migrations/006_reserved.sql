-- This number belongs to another change, which brings its own file.
SELECT 1;
