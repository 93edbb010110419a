package ferret

// BesideQuery is what SQLite is asked for numbers beside ids.
var BesideQuery = besideQuery
