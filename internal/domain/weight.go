package domain

// WeightOfNotes is how many bytes notes take in memory, about: caches are bounded by it.
func WeightOfNotes(notes []Note) (n int64) {
	const perNote = 32 // beside its text
	for i := range notes {
		n += perNote + int64(len(notes[i].Message))
	}
	return n
}

// WeightOfTexts is how many bytes texts take in memory, about.
func WeightOfTexts(texts []string) (n int64) {
	const perText = 24
	for _, text := range texts {
		n += perText + int64(len(text))
	}
	return n
}

// WeightOfClusters is how many bytes names of clusters take in memory, about.
func WeightOfClusters(names []ClusterName) (n int64) {
	const perName = 48
	for _, name := range names {
		n += perName + int64(len(name.Provider)+len(name.Name))
	}
	return n
}
