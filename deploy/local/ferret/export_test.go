package ferret

// ByTextQuery is what SQLite is asked for ids by a member that is a text.
func ByTextQuery(table, member string, none bool, texts ...any) string {
	return byTextQuery(table, byText{member, none, texts})
}

// BesideQuery is what SQLite is asked for numbers beside ids.
func BesideQuery(table string, members []string) string { return besideQuery(table, members, false) }

// AllQuery is what SQLite is asked for all ids, with numbers beside them.
func AllQuery(table string, members []string) string { return besideQuery(table, members, true) }

// BesideTextQuery is what SQLite is asked for ids, with numbers beside them, by a member that is a text.
func BesideTextQuery(table string, members []string, by string, none bool, texts ...any) string {
	return besideTextQuery(table, members, byText{by, none, texts})
}

// Behind is FerretDB's own address, for what is to be asked past the front.
func (db *DB) Behind() string { return "mongodb://" + db.front.backend + "/" }
