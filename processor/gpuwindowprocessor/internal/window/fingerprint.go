package window

import (
	"encoding/json"
	"hash/fnv"
)

// fingerprint identifies the settings that the meaning of the stored state depends on. State can be
// restored only if they are unchanged. They are listed one by one, so that a new setting does not
// make every collector drop its open windows.
func (s *Settings) fingerprint() uint64 {
	h := fnv.New64a()
	// Validated settings can always be encoded.
	_ = json.NewEncoder(h).Encode([]any{s.Window, s.KeepLast, s.Rules, s.Disabled})
	return h.Sum64()
}
