package gpudata

import "sync"

// Scope is the instrumentation scope of the component that created a sample. The zero Scope means
// that the scope is unknown.
type Scope uint8

var scopes struct {
	sync.Mutex
	known []scopeText
}

type scopeText struct{ name, version string }

// NewScope returns the scope with the given name and version. Each component has one scope.
func NewScope(name, version string) Scope {
	scopes.Lock()
	defer scopes.Unlock()
	text := scopeText{name, version}
	for i, known := range scopes.known {
		if known == text {
			return Scope(i + 1)
		}
	}
	scopes.known = append(scopes.known, text)
	return Scope(len(scopes.known))
}

// Text returns the name and version of a scope.
func (s Scope) Text() (name, version string) {
	if s == 0 {
		return "", ""
	}
	scopes.Lock()
	defer scopes.Unlock()
	text := scopes.known[s-1]
	return text.name, text.version
}
