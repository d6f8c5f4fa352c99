package componenthelper

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func TestTheNameOfTheNodeIsInTheEnvironment(t *testing.T) {
	t.Setenv("NODE_NAME", "gpu-node-7")
	assert.Equal(t, "gpu-node-7", NodeName())
}

func TestANodeNameIsEmptyOrOneThatANodeCanHave(t *testing.T) {
	for _, name := range []string{"", "n", "gpu-7", "gpu-7.example.com", strings.Repeat("n", 253)} {
		require.NoError(t, CheckNodeName(name), name)
	}
	for _, name := range []string{"a b", "Node_1", "$(NODE_NAME)", "-n", "n-", "n.", "n..n", strings.Repeat("n", 254)} {
		require.ErrorContains(t, CheckNodeName(name), "must be empty or a DNS subdomain name: ", name)
	}
}

func TestObjectNamesAreThoseThatKubernetesAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[aZ0.\-]{0,8}|a{250,256}`).Draw(t, "name")
		assert.Equal(t, len(validation.IsDNS1123Subdomain(name)) == 0, IsObjectName(name))
	})
}
