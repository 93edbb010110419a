package service

// KeptPrograms is how many collectors are kept compiled.
func (t *Tables) KeptPrograms() int { return t.programs.Len() }
