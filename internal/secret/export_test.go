package secret

import "time"

// Look has services of keys asked at once which key seals, and data keys that could not be made.
func Look(s *Sealer) {
	s.next.Store(0)
	for _, key := range s.keeper.(*Ring).keys {
		if key.kms != nil {
			key.kms.mu.Lock()
			key.kms.next, key.kms.away.since, key.kms.unsealing.since = time.Time{}, time.Time{}, time.Time{}
			key.kms.without.Purge()
			key.kms.mu.Unlock()
		}
	}
}

// Age makes the data key that seals older.
func Age(s *Sealer, by time.Duration) {
	k := s.current.Load()
	s.current.Store(&dataKey{aead: k.aead, keyID: k.keyID, head: k.head, made: k.made.Add(-by)})
}

// DataKeyLife is for how long one seals.
const DataKeyLife = dataKeyLife
