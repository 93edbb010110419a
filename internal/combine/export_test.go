package combine

import "time"

// Nothing but what an expression costs ends it in tests, however busy the machine is.
func init() { deadline = time.Hour }
