package ferret

// ByTextQuery is what SQLite is asked for ids by a member that is a text.
func ByTextQuery(table, member string, none bool, texts ...any) string {
	return byTextQuery(table, byText{member, none, texts})
}

// BesideQuery is what SQLite is asked for numbers beside ids.
var BesideQuery = besideQuery
