package jobfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

var now = time.Unix(1_000_000, 0)

// write creates a file. The ago parameter is how long before now the file was last modified.
func write(t testing.TB, dir, file, text string, ago time.Duration) {
	t.Helper()
	path := filepath.Join(dir, file)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chtimes(path, now.Add(-ago), now.Add(-ago)))
}

func TestAFileHasOneJobPerLine(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
		is   State
	}{
		"one":                             {"4711\n", []string{"4711"}, Used},
		"several":                         {"4711\n4712\n", []string{"4711", "4712"}, Used},
		"no newline at the end":           {"4711\n4712", []string{"4711", "4712"}, Used},
		"Windows line endings":            {"4711\r\n", []string{"4711"}, Used},
		"surrounding blanks":              {"  4711\t\n", []string{"4711"}, Used},
		"arrays, parts, other schedulers": {"4711_3\n4711+0\n123[4].server\n", []string{"4711_3", "4711+0", "123[4].server"}, Used},
		"nobody":                          {"", nil, Used},
		"empty lines":                     {"\n\n \n", nil, Used},
		"a blank inside an ID":            {"4711\ntrain me\n", nil, Invalid},
		"a tab inside an ID":              {"47\t11\n", nil, Invalid},
		"a carriage return inside an ID":  {"47\r11\n", nil, Invalid},
		"a zero byte":                     {"4711\x00\x00\n", nil, Invalid},
		"no UTF-8":                        {"\xff\n", nil, Invalid},
		"a non-ASCII blank":               {"47\u00a011\n", nil, Invalid},
		"an invisible character":          {"47\u200b11\n", nil, Invalid},
		"the longest ID":                  {strings.Repeat("7", catalogue.MaxJobID) + "\n", []string{strings.Repeat("7", catalogue.MaxJobID)}, Used},
		"an ID that is too long":          {strings.Repeat("7", catalogue.MaxJobID+1) + "\n", nil, Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "0", test.text, time.Minute)
			m, err := Read(dir, now)
			require.NoError(t, err)
			assert.Equal(t, test.want, m.Jobs["0"])
			assert.Equal(t, 1, m.Files[test.is])
			assert.Equal(t, test.is == Invalid, m.Bad == "0")
		})
	}
}

func TestFilesAreNamedByGPUAndInstance(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"0", "15", "0.7", "x", "0.new", "-1", "00", "0.7.1", ".0", "0x1", "123456", " 1"} {
		write(t, dir, file, "4711\n", time.Minute)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "3"), 0o700))
	m, err := Read(dir, now)
	require.NoError(t, err)
	one := []string{"4711"}
	assert.Equal(t, map[string][]string{"0": one, "15": one, "0.7": one}, m.Jobs)
	assert.Equal(t, 3, m.Files[Used])
}

// A program may write a job ID in several steps, for example "47" and then "11". A program may also
// write one job ID after another. If the file were read too early, a job ID would be wrong or
// missing.
func TestAFileThatIsBeingWrittenIsNotRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "0", "47", 0)
	write(t, dir, "1", "4711\n", 999*time.Millisecond)
	write(t, dir, "2", "4711\n", time.Second)
	write(t, dir, "3", "4711\n", -time.Hour) // The clock of the machine that wrote the file is ahead.
	m, err := Read(dir, now)
	require.NoError(t, err)
	assert.Equal(t, map[string][]string{"2": {"4711"}}, m.Jobs)
	assert.Equal(t, 3, m.Files[Unfinished])
	assert.Empty(t, m.Bad, "the file may become complete")
}

func TestUnreadableFilesHaveNoJobs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "0", "4711\n", time.Minute)
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "1"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "2")))
	m, err := Read(dir, now)
	require.NoError(t, err)
	assert.Equal(t, map[string][]string{"0": {"4711"}}, m.Jobs)
	assert.Equal(t, 2, m.Files[Unreadable])

	_, err = Read(filepath.Join(dir, "0"), now)
	require.Error(t, err, "no directory")
	m, err = Read(filepath.Join(dir, "9"), now)
	require.NoError(t, err, "the directory is created with the first job")
	assert.Empty(t, m.Jobs)
}

func TestTheAmountOfReadDataIsLimited(t *testing.T) {
	dir := t.TempDir()
	var thousands strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&thousands, i)
	}
	write(t, dir, "0", thousands.String(), time.Minute)
	write(t, dir, "1", strings.Repeat("4711\n", maxBytes), time.Minute)
	write(t, dir, "2", "4711\n", time.Minute)
	m, err := Read(dir, now)
	require.NoError(t, err)
	assert.Len(t, m.Jobs["0"], 5000)
	assert.Nil(t, m.Jobs["1"])
	assert.Equal(t, []string{"4711"}, m.Jobs["2"])
	assert.Equal(t, "1", m.Bad)
	assert.Equal(t, TooLarge, m.BadState)

	crowded := t.TempDir()
	for i := range maxEntries {
		require.NoError(t, os.Symlink("nowhere", filepath.Join(crowded, fmt.Sprint("x", i))))
	}
	_, err = Read(crowded, now)
	require.ErrorIs(t, err, errEntries)
}

// For any file contents, each job ID that parse returns is an entire line of the file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"4711\n4712\n", "4711", "a b\n", "\r\n47\r11", "\x00\xff", "4711_3\n\n4711+0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids, state := parse(text)
		assert.True(t, state == Used || state == Invalid && ids == nil)
		lines := strings.Split(text, "\n")
		for _, id := range ids {
			assert.True(t, catalogue.IsJobID(id), "%q", id)
			assert.True(t, slices.ContainsFunc(lines, func(line string) bool { return strings.TrimSpace(line) == id }), "%q", id)
		}
	})
}
