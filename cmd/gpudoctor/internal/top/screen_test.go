package top

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// terminal returns a screen of the given size that uses a simulated terminal.
func terminal(t *testing.T, width, height int) (*screen, tcell.SimulationScreen) {
	t.Helper()
	tty := tcell.NewSimulationScreen("UTF-8")
	require.NoError(t, tty.Init())
	t.Cleanup(tty.Fini)
	tty.SetSize(width, height)
	return newScreen(tty, "http://page:9411", time.UTC, true), tty
}

// text returns the contents of the screen, without trailing spaces.
func text(tty tcell.SimulationScreen) string {
	cells, width, _ := tty.GetContents()
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(string(c.Runes))
		if (i+1)%width == 0 {
			b.WriteByte('\n')
		}
	}
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(line, " \x00\n") + "\n")
	}
	return strings.ReplaceAll(out.String(), "\x00", " ")
}

// keys simulates key presses. In the text parameter, letters stand for themselves. Arrows, Enter,
// Esc, and paging keys are given by name.
func (s *screen) keys(text string) bool {
	named := map[string]tcell.Key{
		"left": tcell.KeyLeft, "right": tcell.KeyRight, "up": tcell.KeyUp, "down": tcell.KeyDown, "pgdn": tcell.KeyPgDn, "pgup": tcell.KeyPgUp,
		"home": tcell.KeyHome, "end": tcell.KeyEnd, "enter": tcell.KeyEnter, "esc": tcell.KeyEscape, "ctrl-c": tcell.KeyCtrlC, "back": tcell.KeyBackspace2,
	}
	for word := range strings.FieldsSeq(text) {
		if key, ok := named[word]; ok {
			if !s.press(key, 0) {
				return false
			}
			continue
		}
		for _, r := range word {
			if !s.press(tcell.KeyRune, r) {
				return false
			}
		}
	}
	return true
}

func TestScreen(t *testing.T) {
	for sentence, keys := range map[string]string{
		"instances have no separate lines":                      "",
		"instances have separate lines":                         "m",
		"devices are sorted by the highest utilization":         "right",
		"devices and instances are sorted by the lowest memory": "m > > r",
		"only devices with problems are shown":                  "p",
		"a search finds the holder of an instance":              "m / infer-0-6-3 enter",
		"the search text is shown while it is typed":            "/ infer back",
		"esc shows all devices again":                           "p / infer enter esc",
		"the end of the list on a small terminal":               "m end",
		"a page down and a page up":                             "m pgdn pgup",
		"devices are sorted by each column in turn":             "left",
	} {
		t.Run(sentence, func(t *testing.T) {
			s, tty := terminal(t, 120, 16)
			s.page = pages(t, "one_line_per_device_and_window")[2]
			require.True(t, s.keys(keys))
			s.draw()
			golden(t, filepath.Join("testdata", "screen", strings.ReplaceAll(sentence, " ", "_")+".txt"), text(tty))
		})
	}
}

func TestLostDeviceHasNoNumbers(t *testing.T) {
	s, tty := terminal(t, 120, 8)
	s.page = pages(t, "devices_of_an_unreachable_exporter_are_lost")[2]
	s.draw()
	golden(t, filepath.Join("testdata", "screen", "lost_devices.txt"), text(tty))
}

func TestKeysThatQuit(t *testing.T) {
	for keys, stays := range map[string]bool{"q": false, "ctrl-c": false, "esc": false, "/ q": true, "/ x esc": true, "p esc": true, "/ ctrl-c": false, "?": true} {
		s, _ := terminal(t, 80, 10)
		assert.Equal(t, stays, s.keys(keys), keys)
	}
}

func TestColorsMarkSaturationAndErrors(t *testing.T) {
	s, tty := terminal(t, 120, 16)
	s.page = pages(t, "one_line_per_device_and_window")[2]
	s.draw()
	cells, _, _ := tty.GetContents()
	painted := map[string]string{}
	for _, c := range cells {
		if fg, _, _ := c.Style.Decompose(); fg != tcell.ColorDefault {
			painted[fg.Name()] += string(c.Runes)
		}
	}
	assert.Contains(t, painted["yellow"], "power")
	assert.NotEmpty(t, painted["red"], "an XID")

	plain := newScreen(tty, "", time.UTC, false)
	plain.page = s.page
	plain.draw()
	cells, _, _ = tty.GetContents()
	for _, c := range cells {
		fg, _, _ := c.Style.Decompose()
		require.Equal(t, tcell.ColorDefault, fg, "NO_COLOR")
	}
}

// No terminal size and no response may cause a panic.
func TestRandomSizesOfATerminal(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {1, 1}, {5, 2}, {20, 3}, {40, 4}, {300, 100}} {
		s, _ := terminal(t, size[0], size[1])
		s.draw()
		s.page = pages(t, "one_line_per_device_and_window")[0]
		for _, keys := range []string{"", "m", "right", "end", "pgdn", "up"} {
			s.keys(keys)
			s.draw()
		}
		s.page = &page{}
		s.draw()
	}
}

func TestScreenHandlesResponsesAndKeys(t *testing.T) {
	s, tty := terminal(t, 120, 16)
	answers, done := make(chan response), make(chan struct{})
	go func() {
		defer close(done)
		s.run(context.Background(), answers)
	}()
	answers <- response{page: pages(t, "one_line_per_device_and_window")[0]}
	answers <- response{err: errors.New("connection refused")}
	answers <- response{err: errors.New("connection refused")}
	tty.InjectKey(tcell.KeyRune, 'q', tcell.ModNone)
	<-done
	assert.Contains(t, text(tty), "http://page:9411: connection refused")
	assert.Contains(t, text(tty), "nvidia0", "the last numbers are still displayed")
}
