// Package combine makes tables of what clusters report of an object, as status collectors ask for them: docs/combined-status.md
// has the rules. It also makes the one status that all clusters' together are (Aggregate). It decides from values alone.
//
// How it is used:
//
//	program, err := combine.Compile(name, &collector.Spec) // once for a collector; Check is the same for who only asks
//	table := combine.NewTable(program)                     // once for an object
//	for each target { table.Put(ctx, &row) }               // again for each target that changes: true where the table may have changed
//	table.Whole()                                          // the rows that there are have been put; what follows are changes
//	table.Drop(key)                                        // a target has left
//	result := table.Result()                               // the same as that of a new table with the rows that there are now
package combine
