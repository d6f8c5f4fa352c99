package window

import (
	"encoding/json"
	"hash/fnv"
)

// fingerprint returns a hash of the settings on which the meaning of the stored state depends.
// State can be restored only if these settings are unchanged. The settings are listed individually,
// so that adding a setting does not cause every collector to drop its open windows.
func (s *Settings) fingerprint() uint64 {
	h := fnv.New64a()
	// Encoding cannot fail, because the settings have been validated.
	_ = json.NewEncoder(h).Encode([]any{s.Window, s.KeepLast, s.Rules, s.Disabled})
	return h.Sum64()
}
