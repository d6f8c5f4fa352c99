package componenthelper

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const smapsOfACollector = `00400000-02a3c000 r-xp 00000000 fe:00 1234                               /usr/bin/otel col
Size:              37104 kB
Rss:               21000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
02a3c000-05a00000 r--p 0263c000 fe:00 1234                               /usr/bin/otel col
Anonymous:             0 kB
05a00000-05b00000 r--p 05600000 fe:00 1234                               /usr/bin/otel col
Anonymous:             8 kB
05b00000-05c00000 rw-p 05700000 fe:00 1234                               /usr/bin/otel col
Anonymous:             0 kB
7f0000000000-7f0000021000 r-xp 00000000 fe:00 99                         /usr/lib/libnvidia-ml.so.1
Anonymous:             0 kB
7f0000100000-7f0000121000 r--p 00000000 00:00 0
Anonymous:             0 kB
`

func TestOnlyWhatCanBeReadFromTheProgramAgainIsGivenBack(t *testing.T) {
	got := cleanMappings(bufio.NewScanner(strings.NewReader(smapsOfACollector)), "/usr/bin/otel col")
	assert.Equal(t, []mapping{{0x400000, 0x2a3c000}, {0x2a3c000, 0x5a00000}}, got)
	assert.Empty(t, cleanMappings(bufio.NewScanner(strings.NewReader("Anonymous: 0 kB\nzz-1 r-xp\n1-zz r-xp x\n")), "x"))
}

// TestTheProgramRunsOnWithoutItsPages releases the pages twice and accesses them again.
func TestTheProgramRunsOnWithoutItsPages(t *testing.T) {
	now := time.Now()
	pagesReleased.Store(0)
	ReleasePages(now)
	ReleasePages(now.Add(releaseEvery - 1))
	assert.Equal(t, now.UnixNano(), pagesReleased.Load(), "not twice in a minute")
	ReleasePages(now.Add(releaseEvery))
	assert.Equal(t, now.Add(releaseEvery).UnixNano(), pagesReleased.Load())

	program, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	smaps, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer smaps.Close()
	assert.NotEmpty(t, cleanMappings(bufio.NewScanner(smaps), program), "this program has such mappings")
}
