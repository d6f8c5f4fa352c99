package cluster

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the rehearsals share with the tests of this package.
var (
	Grant       = grant
	Tenant      = tenant
	Terminating = terminating
)

// Text returns what is in a file.
func Text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
