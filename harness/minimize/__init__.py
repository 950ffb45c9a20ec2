"""Making a failing Case as small as it can be: edits, a total order, and a reducer over both."""
